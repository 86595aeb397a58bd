"""The web console: watches brokers over their native protocol and shows what it sees in a browser.

    brokers ◄──INSPECT, once a second── Watch ──► NetworkView ──► panes ──websocket──► browser

`view` and `layout` are pure and need nothing but the standard library and NumPy; what draws needs NiceGUI
(`pip install 'tidings[console]'`).
"""
