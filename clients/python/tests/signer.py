"""A wallet as a command: typed data in, signature out."""

import json
import os
import sys

from eth_account import Account

from roamcard import EthAccountSigner

print(EthAccountSigner(Account.from_key(os.environ["WALLET_KEY"])).sign_typed_data(json.load(sys.stdin)["typedData"]))
