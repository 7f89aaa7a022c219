"""The control API and the mock face over real sockets, to the letter of the contract."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from providers.clock import RealClock
from providers.simulator.cloud import Cloud
from providers.simulator.cloud_clock import CloudClock
from providers.simulator.server import CloudServer, open_cloud, read_said
from tests.providers.simulator.stand_in import StandInHosts

PLAIN = {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.36"}
KEY = {"Authorization": "Bearer secret-key"}


class Client:
    """Speaks to one cloud."""

    def __init__(self, url: str, hosts: StandInHosts, cloud: Cloud) -> None:
        self.http = httpx.Client(base_url=url, timeout=20)
        self.hosts, self.cloud = hosts, cloud

    def control(self, path: str, body: Any = None, status: int = 200) -> Any:
        """GET without a body, POST with one."""
        answer = self.http.get(f"/_cloud{path}") if body is None else self.http.post(f"/_cloud{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.http.request(method, f"/mock/v1{path}", json=body, headers=KEY)

    def fault(self, on: str, do: dict[str, Any], **more: Any) -> None:
        self.control("/faults", {"rules": [{"on": on, "do": do, **more}]})

    def create(self, label: str = "gp-a", **order: Any) -> httpx.Response:
        offer = self.call("GET", "/offers").json()["offers"][0]["id"]
        return self.call("POST", "/machines", {"offer_id": offer, "label": label, **order})

    def bill(self) -> Any:
        return self.control("/bill")

    def advance(self, seconds: float) -> None:
        self.control("/clock", {"advance_s": seconds})


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A cloud whose clock stands still, with one offer."""
    hosts = StandInHosts()
    cloud = open_cloud(tmp_path, CloudClock(tmp_path / "clock", RealClock().now, 0), hosts, None, None)
    cloud.put_up([PLAIN])
    server = CloudServer(0, cloud)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    client = Client(server.url, hosts, cloud)
    yield client
    client.http.close()
    cloud.stop()
    server.shutdown()
    thread.join()
    server.server_close()
    cloud.close()


def test_a_life_is_billed_exactly(client: Client) -> None:
    """100 s at 0.36/h cost one cent; the line has every field of the contract."""
    client.control("/clock", {"set": "2026-03-01T12:00:00.000000Z"})
    machine = client.create().json()
    assert client.bill()["alive"] == 1
    assert client.bill()["machines"][0]["state"] == "booting"
    client.advance(100)
    assert client.call("GET", f"/machines/{machine['id']}").json()["state"] == "running"
    assert client.call("DELETE", f"/machines/{machine['id']}").status_code == 202
    bill = client.bill()
    line = bill["machines"][0]
    assert line.pop("home").endswith(f"{machine['id']}/home")
    assert line == {
        "id": machine["id"],
        "provider": "mock",
        "region": "r1",
        "label": "gp-a",
        "gpu": "RTX-4090",
        "gpu_count": 1,
        "spot": False,
        "state": "gone",
        "created_at": "2026-03-01T12:00:00.000000Z",
        "ended_at": "2026-03-01T12:01:40.000000Z",
        "price_per_hour": "0.36",
        "cost": "0.01",
    }
    assert {name: bill[name] for name in ("alive", "total", "standing_requests", "keys")} == {
        "alive": 0,
        "total": "0.01",
        "standing_requests": 0,
        "keys": 0,
    }
    after = client.call("GET", f"/machines/{machine['id']}").json()
    assert (after["state"], after["ended_at"]) == ("gone", "2026-03-01T12:01:40.000000Z")
    assert client.call("GET", "/machines").json() == {"machines": []}


def test_requests_are_told_in_order_without_keys(client: Client) -> None:
    """Each has time, face, call, method, path, body and status; the bearer key is nowhere."""
    client.create(token="t1")
    client.call("GET", "/machines?region=r1")
    client.call("DELETE", "/machines/none")
    requests = client.control("/requests")
    assert [(one["call"], one["method"], one["path"], one["status"]) for one in requests] == [
        ("offers", "GET", "/mock/v1/offers", 200),
        ("create", "POST", "/mock/v1/machines", 201),
        ("list", "GET", "/mock/v1/machines?region=r1", 200),
        ("delete", "DELETE", "/mock/v1/machines/none", 404),
    ]
    assert set(requests[1]) == {"time", "face", "call", "method", "path", "body", "status"}
    assert (requests[1]["face"], requests[1]["body"]["token"]) == ("mock", "t1")
    assert "secret-key" not in str(requests)


def test_status_means_not_done(client: Client) -> None:
    """Body and headers come as they were said, and nothing was made."""
    body = "<html>too many</html>"
    client.fault("create", {"status": 429, "body": body, "headers": {"Retry-After": 7}})
    answer = client.create()
    assert (answer.status_code, answer.text, answer.headers["retry-after"]) == (429, body, "7")
    assert answer.headers["content-type"] == "text/html"
    assert client.bill()["machines"] == []
    assert client.control("/faults")[0]["hits"] == 1


@pytest.mark.parametrize(("body", "sent"), [("", ""), (None, "null"), ('{"id": ', '{"id": '), ({"a": 1}, '{"a": 1}')])
def test_any_body_can_be_sent(client: Client, body: object, sent: str) -> None:
    """Empty, null, broken JSON, JSON."""
    client.fault("list", {"status": 503, "body": body})
    assert client.call("GET", "/machines").text == sent


def test_done_and_the_answer_is_lost(client: Client) -> None:
    """drop_answer and done_then_status leave a machine; refuse leaves none."""
    for deed in ({"drop_answer": True}, {"refuse": True}):
        client.fault("create", deed)
        with pytest.raises(httpx.TransportError):
            client.create()
    assert client.bill()["alive"] == 1
    client.fault("create", {"done_then_status": 502})
    assert client.create().status_code == 502
    assert client.bill()["alive"] == 2
    assert [one["status"] for one in client.control("/requests") if one["call"] == "create"] == [None, None, 502]


def test_no_answer_never_answers(client: Client) -> None:
    """The machine is there, the client waits until it gives up."""
    client.fault("create", {"no_answer": True})
    offer = client.call("GET", "/offers").json()["offers"][0]["id"]
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/mock/v1/machines", json={"offer_id": offer}, headers=KEY, timeout=0.3)
    assert client.bill()["alive"] == 1


def test_a_delayed_deed_is_done_though_the_client_hung_up(client: Client) -> None:
    """The request is logged on arrival; cloud seconds pass; then the machine appears."""
    client.fault("create", {"delay_before_s": 30})
    offer = client.call("GET", "/offers").json()["offers"][0]["id"]
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/mock/v1/machines", json={"offer_id": offer}, headers=KEY, timeout=0.3)
    assert client.control("/requests")[-1]["call"] == "create"
    assert client.bill()["alive"] == 0
    client.advance(30)
    wait_for(lambda: client.bill()["alive"] == 1)


def test_held_requests_wait_for_each_other(client: Client) -> None:
    """hold_until 3: none is answered before the third came."""
    client.fault("list", {"hold_until": 3})
    with ThreadPoolExecutor(3) as pool:
        first, second = (pool.submit(client.call, "GET", "/machines") for _ in range(2))
        wait_for(lambda: len(client.control("/requests")) == 2)
        assert not first.done() and not second.done()
        third = pool.submit(client.call, "GET", "/machines")
        assert [one.result(20).status_code for one in (first, second, third)] == [200, 200, 200]


def test_lists_and_gets_can_lie(client: Client) -> None:
    """empty, null, drop_fields, extra_fields, states, hide_for_s: once each, and the truth after."""
    machine = client.create().json()["id"]
    client.advance(5)
    told = []
    for deed in ({"empty": True}, {"null": True}, {"drop_fields": ["address"], "extra_fields": {"odd": 1}}):
        client.fault("list", deed)
        told.append(client.call("GET", "/machines").json())
    assert told[:2] == [{"machines": []}, None]
    assert "address" not in told[2]["machines"][0] and told[2]["machines"][0]["odd"] == 1
    client.fault("get", {"states": ["weird", "Preempted"]})
    words = [client.call("GET", f"/machines/{machine}").json()["state"] for _ in range(3)]
    assert words == ["weird", "Preempted", "Preempted"]
    client.fault("list", {"hide_for_s": 10})
    assert client.call("GET", "/machines").json() == {"machines": []}
    client.advance(10)
    assert len(client.call("GET", "/machines").json()["machines"]) == 1


def test_a_match_on_list_means_its_machines(client: Client) -> None:
    """Only the machine with the label has another state."""
    client.create("gp-a")
    client.create("gp-b")
    client.fault("list", {"states": ["weird"]}, match={"label": "gp-b"})
    machines = client.call("GET", "/machines").json()["machines"]
    assert [one["state"] for one in machines] == ["booting", "weird"]


def test_refusals_speak_as_the_face_does(client: Client) -> None:
    """401, 402 and 409, and nothing was made."""
    for deed, status in (("unauthorized", 401), ("balance_empty", 402), ("no_capacity", 409)):
        client.fault("create", {deed: True})
        answer = client.create()
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, deed)
    assert client.bill()["machines"] == []
    assert client.http.get("/mock/v1/machines").status_code == 401


def test_offers_can_lie(client: Client) -> None:
    """price_factor shows another price; no_capacity leaves the matching offers out."""
    client.control("/market", {"offers": [PLAIN, {**PLAIN, "gpu": "H100", "vram_gb": 80, "spot_price": "0.1"}]})
    client.fault("offers", {"price_factor": 2}, match={"gpu": "RTX-4090"})
    prices = [one["price_per_hour"] for one in client.call("GET", "/offers").json()["offers"]]
    assert prices == ["0.72", "0.36", "0.10"]
    client.fault("offers", {"no_capacity": True}, match={"gpu": "H100"})
    assert [one["gpu"] for one in client.call("GET", "/offers").json()["offers"]] == ["RTX-4090"]


def test_a_dearer_machine_is_billed_dearer(client: Client) -> None:
    """price_factor on create is the machine's true price, told and billed."""
    client.fault("create", {"price_factor": 1.5})
    assert client.create().json()["price_per_hour"] == "0.54"
    client.advance(3600)
    assert client.bill()["total"] == "0.54"


def test_a_ghost_is_never_there(client: Client) -> None:
    """An id, and no machine behind it."""
    client.fault("create", {"ghost_id": True})
    answer = client.create()
    assert answer.status_code == 201
    assert client.call("GET", f"/machines/{answer.json()['id']}").status_code == 404
    assert client.bill()["machines"] == []


def test_a_deleted_machine_can_live_on(client: Client) -> None:
    """still_alive_s: accepted, terminating, billed to its late end; a second delete changes nothing."""
    machine = client.create().json()["id"]
    client.advance(10)
    client.fault("delete", {"still_alive_s": 90})
    assert client.call("DELETE", f"/machines/{machine}").json()["state"] == "terminating"
    client.advance(60)
    assert client.call("DELETE", f"/machines/{machine}").status_code == 202
    assert client.bill()["alive"] == 1
    assert client.call("GET", "/machines").json()["machines"][0]["state"] == "terminating"
    client.advance(60)
    assert (client.bill()["alive"], client.bill()["total"]) == (0, "0.01")


def test_a_hidden_machine_can_be_deleted(client: Client) -> None:
    """Not to be seen in list and get, it is ended all the same."""
    client.fault("create", {"hide_for_s": 60})
    machine = client.create().json()["id"]
    assert client.call("GET", f"/machines/{machine}").status_code == 404
    assert client.call("DELETE", f"/machines/{machine}").status_code == 202
    assert client.bill()["alive"] == 0


def test_machines_can_be_hurt(client: Client) -> None:
    """Each verb reaches the host; preempt, kill and vanish end the bill, outbid stops it."""
    ids = [client.create(f"gp-{number}").json()["id"] for number in range(5)]
    for verb, body in (("freeze", {}), ("unfreeze", {}), ("partition", {"seconds": 60}), ("restart", {})):
        client.control(f"/machines/{ids[0]}/{verb}", body)
    assert client.hosts.told[-4:] == [
        ("freeze", ids[0]),
        ("unfreeze", ids[0]),
        ("partition", ids[0], 60.0),
        ("restart", ids[0], True),
    ]
    client.control(f"/machines/{ids[1]}/preempt", {"notice_s": 20})
    assert client.bill()["alive"] == 5
    client.control(f"/machines/{ids[2]}/kill", {})
    client.control(f"/machines/{ids[3]}/vanish", {})
    client.control(f"/machines/{ids[4]}/outbid", {})
    client.advance(50)
    assert [one["state"] for one in client.bill()["machines"]] == ["running", "gone", "gone", "gone", "stopped"]
    assert [one["cost"] for one in client.bill()["machines"]] == ["0.005", "0.002", "0.00", "0.00", "0.00"]
    assert client.call("GET", f"/machines/{ids[1]}").json()["preempted"] is True
    assert client.call("GET", f"/machines/{ids[2]}").json()["preempted"] is False
    assert client.call("GET", f"/machines/{ids[3]}").status_code == 404
    client.control(f"/machines/{ids[1]}/freeze", {}, 409)
    client.control("/machines/none/freeze", {}, 404)
    client.control(f"/machines/{ids[0]}/tickle", {}, 404)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/faults", {"rules": [{"on": "create", "do": {"sattus": 1}}]}),
        ("/faults", {"rules": [{"on": "create", "odd": 1, "do": {}}]}),
        ("/faults", {}),
        ("/market", {"offers": [{"provider": "mock"}]}),
        ("/market", {"offers": [{**PLAIN, "colour": "red"}]}),
        ("/market", {"offers": [{**PLAIN, "capabilities": {"stop": "soft"}}]}),
        ("/clock", {"set": "noon"}),
        ("/clock", {}),
        ("/clock", {"advance_s": "1"}),
    ],
)
def test_what_is_written_wrong_is_400_with_the_reason(client: Client, path: str, body: object) -> None:
    """Nothing changes, and the reason is told."""
    assert client.control(path, body, 400)["error"]
    assert client.control("/faults") == []
    assert len(client.call("GET", "/offers").json()["offers"]) == 1


def test_defaults_of_an_offer(client: Client) -> None:
    """What is not said is as the contract says."""
    [offer] = client.control("/market", {"offers": [PLAIN]})["offers"]
    expected = {
        "gpu_count": 1,
        "spot_price": None,
        "capacity": 1000,
        "boot_s": 1,
        "disk_price": "0.00",
        "traffic_price": "0.00",
        "region": "r1",
        "reliability": 0.99,
        "trust": "verified",
        "capabilities": {"stop": "boot", "labels": True, "token": True, "bills": False},
    }
    assert {name: offer[name] for name in expected} == expected


def test_the_clock_steps(client: Client) -> None:
    """set and advance_s; now has microseconds; at speed 0 it stands still."""
    client.control("/clock", {"set": "2026-05-01T00:00:00.000001Z"})
    assert client.control("/clock", {"advance_s": 1.5}) == {"now": "2026-05-01T00:00:01.500001Z", "speed": 0}
    assert client.control("/clock") == {"now": "2026-05-01T00:00:01.500001Z", "speed": 0}


def test_bills_are_told_where_the_market_can(client: Client) -> None:
    """cost is in the answer only with the capability."""
    assert "cost" not in client.create().json()
    client.control("/market", {"offers": [{**PLAIN, "capabilities": {"bills": True}}]})
    machine = client.create().json()["id"]
    client.advance(100)
    assert client.call("GET", f"/machines/{machine}").json()["cost"] == "0.01"


def test_a_fault_file_may_use_bare_words(tmp_path: Path) -> None:
    """YAML reads on and null as values; in a file of rules they are names."""
    file = tmp_path / "faults.yaml"
    file.write_text("rules:\n  - on: list\n    times: 2\n    do: {null: true}\n")
    assert read_said(file, "rules") == [{"on": "list", "times": 2, "do": {"null": True}}]


def test_many_connections_at_once(client: Client) -> None:
    """64 clients that connect in the same moment are all answered."""
    sockets = [socket.create_connection(("127.0.0.1", client.http.base_url.port or 0)) for _ in range(64)]
    for one in sockets:
        one.sendall(b"GET /_cloud/clock HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert all(one.recv(12) == b"HTTP/1.1 200" for one in sockets)
    for one in sockets:
        one.close()


def wait_for(what: Any) -> None:
    """Ask again until it is true; pytest's limit ends it."""
    while not what():
        continue
