"""The cdk8s constructs of a platform: App, and one module for each package of builders. Importing them starts Node."""
