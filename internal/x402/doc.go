// Package x402 is the wire form of x402 v2: headers, requirements and EIP-3009 typed data, with no policy and no I/O.
package x402
