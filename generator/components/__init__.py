"""The cdk8s constructs of a platform: the App with its components, and MpiRuntime. Importing them starts Node.js."""
