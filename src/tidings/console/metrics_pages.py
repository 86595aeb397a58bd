"""A broker's metrics under the console's address: they share a port, and programs that read them must not notice."""

import asyncio
import urllib.error
import urllib.request

from fastapi import FastAPI
from fastapi.responses import Response

METRICS_PAGES = ("/metrics", "/health", "/live", "/ready", "/network")
SECONDS = 5.0


def add_metrics(app: FastAPI, address: str) -> None:
    def fetch(page: str) -> Response:
        try:
            with urllib.request.urlopen(f"http://{address}{page}", timeout=SECONDS) as answer:
                return Response(answer.read(), answer.status, media_type=answer.headers["Content-Type"])
        except urllib.error.HTTPError as refused:
            with refused:
                return Response(refused.read(), refused.code, media_type=refused.headers["Content-Type"])
        except OSError:
            return Response("the broker does not answer\n", 503, media_type="text/plain")

    for page in METRICS_PAGES:

        async def show(page: str = page) -> Response:
            return await asyncio.to_thread(fetch, page)

        app.add_api_route(page, show, methods=["GET"])
