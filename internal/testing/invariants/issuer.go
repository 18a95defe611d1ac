package invariants

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"
)

// issuerBook is what the issuers executed. FloatCents is the least of their floats.
type issuerBook struct {
	FloatCents int64          `json:"floatCents"`
	Cards      []issuerCard   `json:"cards"`
	Movements  []issuerMove   `json:"movements"`
	Executed   map[string]int `json:"executed"`
}

type issuerCard struct {
	ID           string `json:"id"`
	Reference    string `json:"reference"`
	Status       string `json:"status"`
	LoadCents    int64  `json:"loadCents"`
	BalanceCents int64  `json:"balanceCents"`
	Scenario     string `json:"scenario"`
}

// live says that the issuer's card counts as one.
func (c issuerCard) live() bool {
	return c.Status == "preparing" || c.Status == "live" || c.Status == "locked"
}

type issuerMove struct {
	ID          string `json:"id"`
	Reference   string `json:"reference"`
	Card        string `json:"cardId"`
	Direction   string `json:"direction"`
	AmountCents int64  `json:"amountCents"`
	Status      string `json:"status"`
}

func readIssuers(ctx context.Context, urls []string) (all issuerBook, err error) {
	all.FloatCents, all.Executed = math.MaxInt64, map[string]int{}
	for _, url := range urls {
		b, err := readBook[issuerBook](ctx, "issuer", url)
		if err != nil {
			return all, err
		}
		all.FloatCents = min(all.FloatCents, b.FloatCents)
		all.Cards, all.Movements = append(all.Cards, b.Cards...), append(all.Movements, b.Movements...)
		for ref, n := range b.Executed {
			all.Executed[ref] += n
		}
	}
	return all, nil
}

func readBook[T any](ctx context.Context, whose, url string) (b T, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return b, fmt.Errorf("ask for the %s's books: %w", whose, err)
	}
	client := http.Client{Timeout: 30 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return b, fmt.Errorf("ask for the %s's books: %w", whose, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return b, fmt.Errorf("ask for the %s's books: %s", whose, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<20)).Decode(&b); err != nil {
		return b, fmt.Errorf("read the %s's books: %w", whose, err)
	}
	return b, nil
}

// read reads the three books, the database first: what it has recorded, the others must have.
func read(ctx context.Context, b Books) (*records, error) {
	r := &records{
		payTo: b.PayTo, treasuries: b.treasuries(), unmatched: b.Unmatched, lost: b.Lost,
		secondAbove: b.SecondAbove, answers: b.Answers, signed: b.Signed, reorganised: b.Reorganised, down: b.Down,
		skew: b.Skew,
	}
	var err error
	if b.Tables != nil {
		r.database = b.Tables.database()
	} else if r.database, err = readDatabase(ctx, b.DatabaseURL); err != nil {
		return nil, err
	}
	if r.chain, err = readChain(ctx, b, r.database); err != nil {
		return nil, err
	}
	if r.issuer, err = readIssuers(ctx, b.issuers()); err != nil {
		return nil, err
	}
	if r.supplier, err = readSuppliers(ctx, b.suppliers(), r.journal); err != nil {
		return nil, err
	}
	return r, nil
}
