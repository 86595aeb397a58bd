"""Login and logout: two plain pages without scripts. The cookie is out of reach for scripts and other sites."""

from html import escape
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from tidings.console.request_guard import COOKIE, LOGIN_PATH, token_of
from tidings.console.sessions import Sessions
from tidings.errors import TidingsError

FORM_BYTES_MAX = 10_000
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · Tidings</title><link rel="stylesheet" href="/style/login.css"></head>
<body><main><h1>Tidings</h1><p>Log in with a user of the broker.</p>
{error}<form method="post" action="{path}"><input type="hidden" name="next" value="{next}">
<label for="user">User</label>
<input id="user" name="user" autocomplete="username" required autofocus value="{user}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password">
<button type="submit">Log in</button></form></main></body></html>
"""


def own_path(text: str) -> str:
    """Only an address of ours: two slashes would lead to another host, and browsers pass over tabs between them.

    >>> own_path("/trace?id=1"), own_path("//evil.example"), own_path("/\\t/evil.example"), own_path("https://evil.example")
    ('/trace?id=1', '/', '/', '/')
    """
    ours = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if ours else "/"


def _page(next: str, user: str = "", error: str = "") -> HTMLResponse:
    told = f'<p class="error" role="alert">{escape(error)}</p>' if error else ""
    text = _PAGE.format(path=LOGIN_PATH, next=escape(next), user=escape(user), error=told)
    return HTMLResponse(text, 401 if error else 200, headers={"cache-control": "no-store"})


def add_login(app: FastAPI, sessions: Sessions) -> None:
    @app.get(LOGIN_PATH)
    async def show(next: str = "/") -> Response:
        return _page(next)

    @app.post(LOGIN_PATH)
    async def log_in(request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > FORM_BYTES_MAX:
                return _page("/", error="user name or password is too long")
        form = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        user, to = form.get("user", ""), form.get("next", "/")
        address = request.client.host if request.client else ""
        try:
            token = await sessions.log_in(user, form.get("password", ""), address)
        except TidingsError as error:
            return _page(to, user, error.reason)
        response = RedirectResponse(own_path(to), 303)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=secure, path="/")
        return response

    @app.post("/logout")
    async def log_out(request: Request) -> Response:
        sessions.log_out(token_of(request.headers.get("cookie", "")))
        response = RedirectResponse(LOGIN_PATH, 303)
        response.delete_cookie(COOKIE, path="/")
        return response
