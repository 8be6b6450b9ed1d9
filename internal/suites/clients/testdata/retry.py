"""Sends one request by urllib3 to each URL of a list, which it reads from its input as JSON."""

import json
import sys
import threading

import urllib3


def ask(url):
    retry = urllib3.Retry(total=2, status_forcelist=[429, 503], backoff_factor=0.05)
    try:
        urllib3.PoolManager(retries=retry).request("GET", url)
    except urllib3.exceptions.HTTPError:
        pass  # it gave up


threads = [threading.Thread(target=ask, args=(run["url"],)) for run in json.load(sys.stdin)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
