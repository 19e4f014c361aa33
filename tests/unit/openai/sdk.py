"""The official SDK over a transport that answers with given bytes."""

import importlib

from openai import DefaultHttpxClient, OpenAI

# the SDK's HTTP library: httpx, or httpx2 from SDK 3 on
_http = importlib.import_module(DefaultHttpxClient.__mro__[1].__module__.split(".")[0])


def client_for(stream: bytes) -> OpenAI:
    """Return a client whose every request is answered by `stream` as an event stream."""

    def answer(request):
        return _http.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = _http.Client(transport=_http.MockTransport(answer))
    return OpenAI(api_key="k", base_url="http://pool/v1", http_client=http, max_retries=0)
