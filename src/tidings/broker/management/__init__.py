"""Management API: HTTP and JSON, version 1, described by an OpenAPI document."""
