// Package auth answers who is calling: sign-in messages, sessions, reveal challenges and operator tokens.
//
//	wallet                                  auth                                    store
//	  | Challenge(wallet, schemes)            |                                       |
//	  |-------------------------------------->| one message, one nonce, 5 min         |
//	  |<-- EIP-4361 text or its EIP-712 twin -|-- Create ---------------------------->|
//	  | Verify(signature)                     |                                       |
//	  |-------------------------------------->| rebuild, compare, recover, then spend |
//	  |<-- session, bearer token (1 h) -------|-- Consume, Create ------------------->|
//	  | RevealChallenge(card, recipientKey)   |                                       |
//	  |-------------------------------------->| bound to card, owner, session: 300 s  |
//	  | Reveal(signature)                     |                                       |
//	  |-------------------------------------->| spend first, right or wrong; judge    |
//
// Only externally owned accounts can prove themselves: there are no contract calls.
package auth
