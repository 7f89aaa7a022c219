"""The simulated market's own face: a small REST API under `/mock/v1`, for provider `mock`.

Every request carries `Authorization: Bearer KEY` (any key that is not empty). Bodies are JSON.
Money: decimal strings of USD. Times: RFC 3339 UTC with microseconds. Instants not known: null.

    GET    /mock/v1/offers               200 {"offers": [OFFER, ...]}            what can be rented now
    POST   /mock/v1/machines  ORDER      201 MACHINE, or 200 MACHINE where the token is known already
    GET    /mock/v1/machines?region=R    200 {"machines": [MACHINE, ...]}        without region: all; ended ones left out
    GET    /mock/v1/machines/ID          200 MACHINE (also after its end), 404 not known
    DELETE /mock/v1/machines/ID          202 {"id", "state"}; 200 when it is over already; 404 not known

OFFER    id, provider, region, gpu, gpu_count, vram_gb (per GPU), price_per_hour (whole machine, without disk),
         highest_per_hour (spot: the on-demand price), disk_price (USD per GB and hour), traffic_price (USD per GB),
         spot, stop (hard/boot/late/none), trust, reliability, boot_s, capacity, host, labels, token, bills, as_of
ORDER    offer_id, label, token, public_key (one authorized_keys line), disk_gb (whole GB), and where wanted
         boot_text (shell, run as root as the first boot command; stop class boot), stop_at (time; stop class hard),
         image
MACHINE  id, region, label, gpu, gpu_count, spot, state, price_per_hour, disk_price, disk_gb, created_at, ended_at,
         preempted (true/false), address {"host", "port", "user"} or null, and cost where the market tells bills
state    booting, running, terminating (delete accepted, still billed), stopped (only the disk is billed), gone

Errors are {"error": {"code", "text"}}: 400 wrong_request, 401 unauthorized, 402 balance_empty, 404 not_found,
409 no_capacity. On a machine `poweroff` gives it back. Read lag 30 s, proof gap 2 s, ghost window 300 s,
all in cloud seconds.
"""
