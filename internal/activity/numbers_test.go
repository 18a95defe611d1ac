package activity_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/activity"
)

// digitsOnly makes a random id of version 4 from a card number and more digits: no letter but the variant's.
func digitsOnly(number string, r *rand.Rand) string {
	var b strings.Builder
	b.WriteString(number)
	for b.Len() < 32 {
		fmt.Fprint(&b, r.IntN(10))
	}
	d := []byte(b.String()[:32])
	d[12], d[16] = '4', '8'
	return fmt.Sprintf("%s-%s-%s-%s-%s", d[:8], d[8:12], d[12:16], d[16:20], d[20:])
}

// Ids are accepted in every member that may hold one, whatever their digits are.
func TestCheckTakesNoIDForACardNumber(t *testing.T) {
	t.Parallel()
	source := rand.NewChaCha8([32]byte{1})
	r := rand.New(source)
	ids := []string{"41111111-1111-4008-8abc-0123456789ab", "34313131-3131-4131-b131-313131313131"}
	for range 3_000 {
		id, err := uuid.NewRandomFromReader(io.Reader(source))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id.String(), strings.ToUpper(id.String()))
	}
	for range 1_000 {
		ids = append(ids, digitsOnly(cardNumber(r, 12), r)) // a digit of the version comes behind it
	}
	for _, id := range ids {
		e, err := activity.Check(activity.Submission{
			EventID: id, EventName: "page_view", VisitorID: id, Path: "/cards/" + id,
		})
		if err != nil || e.Path != "/cards/{id}" {
			t.Fatalf("%s: %q, %v", id, e.Path, err)
		}
		if e.ID.String() == strings.ToLower(id) || strings.HasPrefix(id, fmt.Sprintf("%x", e.Visitor[:4])) {
			t.Fatalf("%s is kept", id)
		}
	}
}

// cardNumber makes a number that passes the Luhn check.
func cardNumber(r *rand.Rand, length int) string {
	digits := []byte{'3' + byte(r.IntN(4))}
	for len(digits) < length-1 {
		digits = append(digits, '0'+byte(r.IntN(10)))
	}
	sum := 0
	for i := range digits {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return string(append(digits, '0'+byte((10-sum%10)%10)))
}

// grouped writes digits in groups of these sizes; the last one repeats.
func grouped(digits, separator string, sizes ...int) string {
	var groups []string
	for len(digits) > 0 {
		n := min(sizes[0], len(digits))
		groups, digits = append(groups, digits[:n]), digits[n:]
		if len(sizes) > 1 {
			sizes = sizes[1:]
		}
	}
	return strings.Join(groups, separator)
}

// Numbers are written as people and programs write them.
func TestForbiddenFindsCardNumbersInEveryUsualSpelling(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewChaCha8([32]byte{2}))
	for i := range 80 {
		number := cardNumber(r, 12+i%8)
		for _, separator := range []string{"", " ", "-", ".", "_", "/", "\u00a0", "\u2011", "\u2013", "\t"} {
			for _, sizes := range [][]int{{4}, {4, 6, 5}, {1}} {
				spelled := grouped(number, separator, sizes...)
				for _, text := range []string{spelled, "card " + spelled, "n=" + spelled + ";", uuid.NewString() + " " + spelled} {
					if !activity.Forbidden(text) {
						t.Errorf("%q goes through the net", text)
					}
				}
				_, err := activity.Check(activity.Submission{
					EventID: uuid.NewString(), EventName: "page_view", VisitorID: uuid.NewString(), Path: "/cards/" + spelled,
				})
				if err == nil {
					t.Errorf("%q is taken in a path", spelled)
				}
			}
		}
	}
}
