"""A wallet as a command: typed data in, signature out. It knows nothing of the client that calls it."""

import json
import os
import sys

from eth_account import Account

data = json.load(sys.stdin)["typedData"]
# eth-account takes whole numbers as such, not as the decimal strings of wallets.
for member in data["types"][data["primaryType"]]:
    if member["type"].startswith(("uint", "int")):
        data["message"][member["name"]] = int(data["message"][member["name"]])
signed = Account.from_key(os.environ["WALLET_KEY"]).sign_typed_data(full_message=data)
print("0x" + bytes(signed.signature).hex())
