// Package auth authenticates callers: sign-in messages, sessions, reveal challenges and operator tokens.
//
//	wallet                                  auth                                    store
//	  | Challenge(wallet, schemes)            |                                       |
//	  |-------------------------------------->| one message, one nonce, 5 min         |
//	  |<-- EIP-4361 text or EIP-712 message  -|-- Create ---------------------------->|
//	  | Verify(signature)                     |                                       |
//	  |-------------------------------------->| rebuild, compare, recover, consume     |
//	  |<-- session, bearer token (1 h) -------|-- Consume, Create ------------------->|
//	  | RevealChallenge(card, recipientKey)   |                                       |
//	  |-------------------------------------->| bound to card, owner, session: 300 s  |
//	  | Reveal(signature)                     |                                       |
//	  |-------------------------------------->| verify, then consume in any case      |
//
// A wallet that signed the message of a 402 is signed in for one request (sign-in-with-x of x402): nothing is stored of
// such a message before it is used, and nothing comes of it but that request.
//
// What is no signature of a key is asked of SmartAccounts, where there are any.
package auth
