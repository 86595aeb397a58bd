"""Jobs of the pipeline, one module each; `registry` lists them."""
