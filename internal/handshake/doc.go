// Package handshake is what passes between the service and a wallet in addition to payments: the text that the wallet
// signs, and the seal of what only its owner may read.
package handshake
