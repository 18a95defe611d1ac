// Package availability answers one question: can this product be sold now?
package availability
