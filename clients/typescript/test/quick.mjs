// What shares one development server. Each file also runs alone.
import "./purchase.test.mjs";
import "./connect.test.mjs";
import "./keys.test.mjs";
import "./lost-reply.test.mjs";
import "./bad-input.test.mjs";
import "./client.test.mjs";
import "./paying.test.mjs";
import "./nonces.test.mjs";
import "./journal.test.mjs";
import "./scenarios.test.mjs";
import "./surface.test.mjs";
import "./browser.test.mjs";
import "./esim-client.test.mjs";
import "./service-readme.test.mjs";
