"""A local Functions host for the Python v2 model: runs function_app.py where Core Tools are not installed.

Nothing that is deployed imports this package. `python -m local.host --help` runs it alone;
`python -m local` runs it together with the broker and Azurite.
"""
