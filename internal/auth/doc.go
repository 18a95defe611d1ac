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
// Only externally owned accounts can sign in: contract signatures are not supported.
package auth
