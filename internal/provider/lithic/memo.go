package lithic

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// mark begins every memo of ours.
const mark = "roamcard"

// memo is what a card's memo holds of its opening: the vendor can be asked for cards by it, and for nothing else of
// ours.
type memo struct {
	ref   fulfilment.Ref
	load  money.Cents
	buyer string
}

func memoOf(o card.Opening) memo { return memo{ref: o.Ref, load: o.Load, buyer: o.Buyer} }

// String is at most 91 characters.
func (m memo) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %d %s", mark, m.ref, int64(m.load), m.buyer))
}

// parseMemo reads a memo; ok is false when it is not one of ours.
func parseMemo(s string) (m memo, ok bool) {
	parts := strings.Split(s, " ")
	if len(parts) < 3 || len(parts) > 4 || parts[0] != mark {
		return memo{}, false
	}
	ref, err := uuid.Parse(parts[1])
	load, amiss := strconv.ParseInt(parts[2], 10, 64)
	m = memo{ref: fulfilment.Ref(ref), load: money.Cents(load)}
	if len(parts) == 4 {
		m.buyer = parts[3]
	}
	return m, err == nil && amiss == nil && load > 0 && m.String() == s
}

// purpose is what a book transfer is for, as its memo says it.
type purpose string

const (
	opening    purpose = mark + " opening"
	load       purpose = mark + " load"
	withdrawal purpose = mark + " withdrawal"
)

// loads is what the tokens of opening loads are derived from. It never changes.
var loads = uuid.MustParse("5b0a6a4f-7d0b-4c53-9b0e-0f6b0e7f5a11")

// loadToken is the token of the load that belongs to an opening.
func loadToken(ref fulfilment.Ref) uuid.UUID {
	return uuid.UUID(fulfilment.DeriveRef(loads, ref.String()))
}
