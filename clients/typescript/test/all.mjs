// Everything against one development server. Each file also runs alone.
import "./purchase.test.mjs";
import "./connect.test.mjs";
import "./keys.test.mjs";
import "./lost-reply.test.mjs";
import "./bad-input.test.mjs";
import "./topup.test.mjs";
import "./payable.test.mjs";
import "./esim.test.mjs";
import "./triggers.test.mjs";
import "./crash.test.mjs";
import "./client.test.mjs";
import "./paying.test.mjs";
import "./readme.test.mjs";
