package order

import (
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/x402"
)

// buyers is the namespace of the notes that providers keep. It never changes.
var buyers = uuid.MustParse("2f6d5b0e-7c41-5f0b-9d0a-5a8e1c3b7d94")

// BuyerOf is the pseudonymous buyer id sent to providers that store notes, and shown again in their statements: the
// same for all orders of a wallet, and not the wallet. After data loss it says whose goods they are.
func BuyerOf(owner x402.Address) string {
	return uuid.NewSHA1(buyers, []byte(owner.Lower())).String()
}

// adoptedName begins the name of an order that was made for goods: the first delivery's reference is that of the goods.
const adoptedName = "adopted:"

// RecoveredRef is the reference of the goods that an order was made for, by the order's name.
func RecoveredRef(name string) (goods uuid.UUID, ok bool) {
	text, ok := strings.CutPrefix(name, adoptedName)
	if !ok {
		return goods, false
	}
	goods, err := uuid.Parse(text)
	return goods, err == nil
}

// RecoveredKey is the key of an order that was made for goods that were found, until its buyer names the real one. No
// caller can send it: it is too long.
func RecoveredKey(reference uuid.UUID) string {
	return strings.Repeat("-", MaxKey) + reference.String()
}
