package reconcile

import (
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/order"
)

// Unit is what is compared at once, and opens and closes findings: "order/<id>", "arrival/<transfer>",
// "line/<the issuer's name>", "posting/<id>", "block/<number>", "provider/<name>".
type Unit string

// The sorts of units.
const (
	sortOrder    = "order"
	sortTransfer = "arrival"
	sortLine     = "line"
	sortPosting  = "posting"
	sortBlock    = "block"
	sortProvider = "provider"
)

func unitOf(sort, name string) Unit { return Unit(sort + "/" + name) }

// OrderUnit is an order with all its records.
func OrderUnit(id order.ID) Unit { return unitOf(sortOrder, string(id)) }

// TransferUnit is a transfer that may be unmatched.
func TransferUnit(at Place) Unit { return unitOf(sortTransfer, at.String()) }

// LineUnit is a line of the issuer that no order explains.
func LineUnit(line string) Unit { return unitOf(sortLine, line) }

// BlockUnit is a block that could not be read.
func BlockUnit(block uint64) Unit { return unitOf(sortBlock, strconv.FormatUint(block, 10)) }

// ProviderUnit is a provider's books as a whole.
func ProviderUnit(name string) Unit { return unitOf(sortProvider, name) }

// Name is what follows the sort.
func (u Unit) Name() string {
	_, name, _ := strings.Cut(string(u), "/")
	return name
}

func (u Unit) sort() string {
	sort, _, _ := strings.Cut(string(u), "/")
	return sort
}

// transfer is the transfer of a posting without an order, by the posting's id; ok is false when it names none.
func (u Unit) transfer() (subject string, ok bool) {
	for _, kind := range []string{"unmatched/", "resolved/"} {
		if subject, ok := strings.CutPrefix(u.Name(), kind); ok && isPlace(subject) {
			return subject, true
		}
	}
	return "", false
}
