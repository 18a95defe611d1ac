// What mostly waits for the service, or slows a part of it: on a server of its own, next to quick.mjs.
import "./triggers.test.mjs";
import "./hostile.test.mjs";
import "./esim.test.mjs";
import "./topup.test.mjs";
import "./payable.test.mjs";
import "./readme.test.mjs";
