"""Hazards: settings of a platform that are valid, but dangerous or useless. `synth` reports them as warnings.

`generator.config` rejects settings that can never work.
"""
