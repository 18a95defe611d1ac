// What shares one development server. Each file also runs alone; those that need servers of their own run beside this one.
import "./purchase.test.mjs";
import "./connect.test.mjs";
import "./keys.test.mjs";
import "./lost-reply.test.mjs";
import "./bad-input.test.mjs";
import "./topup.test.mjs";
import "./payable.test.mjs";
import "./esim.test.mjs";
import "./esim-client.test.mjs";
import "./triggers.test.mjs";
import "./client.test.mjs";
import "./paying.test.mjs";
import "./nonces.test.mjs";
import "./watch.test.mjs";
import "./readme.test.mjs";
