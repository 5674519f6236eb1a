"""Hazards: settings of a platform that are possible, and dangerous or useless. `synth` reports them as warnings.

What cannot be meant at all is no hazard: `generator.config` refuses it.
"""
