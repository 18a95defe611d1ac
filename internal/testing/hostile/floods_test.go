package hostile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// floods are attacks by number, while honest buyers are served.
func floods() []attack {
	return []attack{
		{
			name: "unpaid-terms-flood", ref: "A42", by: stranger, do: floodsTerms,
			aim:     "the service is busy telling prices, or its database fills",
			defence: "a challenge is signed and stored nowhere; 60 a minute for each address",
		},
		{
			name: "terms-for-all-that-is-left", ref: "A41", by: stranger, do: invitesWithoutPaying, torture: true,
			aim:     "nothing is left for honest buyers, because it is promised to those who never pay",
			defence: "an unpaid challenge reserves nothing; what is scarce is reserved by the claim of a signed payment",
		},
		{
			name: "signatures-of-empty-wallets", ref: "A29", by: stranger, do: floodsEmptyWallets,
			held:    "checkout TestPaymentsAreCountedBeforeTheirSignature",
			aim:     "each request costs us a signature check and calls to the node",
			defence: "cheap checks come first; 60 new payments a minute for each address; nothing is stored",
		},
		{
			name: "sign-in-flood", by: stranger, do: floodsSignIns,
			held: "transport/edge TestThrottleCountsByClientAddress",
			aim:  "nobody else can sign in, or the database fills with challenges",
			defence: "10 challenges and 10 verifications a minute for each address (of IPv6, each /64, with 4 times that " +
				"for a /56 and 16 times for a /48), not for each wallet; 100,000 are kept in all",
		},
		{
			name: "operator-token-guessing", by: stranger, do: guessesTokens,
			held:    "transport/rpcx TestOperatorsAreCountedByNameAndWrongTokensByAddress",
			aim:     "an operator's token",
			defence: "256 random bits, stored as hashes, compared in constant time; 60 attempts a minute",
		},
		{
			name: "events-flood", by: stranger, do: floodsEvents,
			held:    "transport/edge TestThrottleUsesRatesOfRawHandlers",
			aim:     "the database fills with product events",
			defence: "120 a minute for each address; names and properties are allowlisted; events are pruned",
		},
		{
			name: "mcp-flood", by: stranger, do: floodsMCP,
			held:    "transport/edge TestThrottleUsesRatesOfRawHandlers",
			aim:     "tools that read are called until nothing else is",
			defence: "120 calls a minute for each address; batches are refused",
		},
		{
			name: "json-bombs", ref: "A31", by: stranger, do: floodsBombs,
			aim: "memory or time, by texts that are small outside and large inside",
			defence: "sizes and depth are bounded before anything is decoded; compressed bodies are refused, and compressed " +
				"messages unpacked to their bound",
		},
		{
			name: "reads-flood", by: stranger, do: floodsReads,
			held: "transport/edge TestThrottleCountsByClientAddress",
			aim:  "public reads keep the service from selling",
			defence: "600 a minute for each address, and long answers count by their bytes; documents are kept in memory, " +
				"compressed and not",
		},
		{
			name: "orders-by-guessing", ref: "A43", by: stranger, do: guessesOrders,
			held:    "checkout TestOrderExistsForItsOwnerOnly",
			aim:     "another's order by its id",
			defence: "ids are random; unknown, malformed and foreign ids get the same answer",
		},
	}
}

// limited checks that no more than the rate of some callers was let through.
func (r *trial) limited(counts map[int]int, perMinute, callers int, took time.Duration) {
	r.Helper()
	total, through := 0, 0
	for status, n := range counts {
		total += n
		if status != http.StatusTooManyRequests && status != 0 {
			through += n
		}
	}
	allowed := callers * (perMinute + int(took.Minutes()*float64(perMinute)) + 2)
	r.Logf("of %d requests %d were let through, %d are allowed: %v", total, through, allowed, counts)
	if through > allowed {
		r.Errorf("of %d requests %d were let through, %d are allowed: %v", total, through, allowed, counts)
	}
	if total < perMinute*callers {
		r.Errorf("%d requests are no flood: %v", total, counts)
	}
}

// flooded besieges with a request repeated from one address, and expects its rate to hold.
func (r *trial) flooded(perMinute int, request func(ctx context.Context, c *caller, n int) answer) {
	r.Helper()
	r.besiege(func(ctx context.Context) {
		c, begin := r.caller(), time.Now()
		counts := flood(ctx, sized(100, 600), 20, perMinute+20,
			func(ctx context.Context, n int) answer { return request(ctx, c, n) })
		r.limited(counts, perMinute, 1, time.Since(begin))
	})
}

func floodsTerms(r *trial) {
	const unpaid = 50
	c, rows := r.caller(), r.rows()
	for i := range unpaid {
		if a := c.send(r.Context(), http.MethodPost, cardPath,
			keyed(fmt.Sprint("k", i))); a.status != http.StatusPaymentRequired {
			r.Fatalf("%d %.300s", a.status, a.body)
		}
	}
	// Periodic jobs and what others bought before leave some rows meanwhile, and not one for each request.
	if more := r.rows() - rows; more >= unpaid {
		r.Errorf("%d unpaid requests left %d rows", unpaid, more)
	}
	r.flooded(60, func(ctx context.Context, c *caller, n int) answer {
		return c.send(ctx, http.MethodPost, []string{cardPath, esimPath, "/roamcard.v1.CardService/PurchaseCard"}[n%3],
			keyed(fmt.Sprint("k", n)))
	})
}

// invitesWithoutPaying leaves the issuer with enough for a few cards, and asks for the terms of many more.
func invitesWithoutPaying(r *trial) {
	r.unheld()
	r.sandbox("POST", "/control/float", map[string]any{"cents": 8 * 2500}, nil)
	defer func() {
		r.sandbox("POST", "/control/float", map[string]any{"cents": plenty}, nil)
		r.await("cards are sold again", func() error {
			if a := r.caller().send(r.Context(), http.MethodPost, cardPath, keyed("k")); a.status != http.StatusPaymentRequired {
				return fmt.Errorf("%d %s", a.status, a.code())
			}
			return nil
		})
	}()
	for range sized(2, 8) {
		c := r.caller()
		for i := range 50 {
			if a := c.send(r.Context(), http.MethodPost, cardPath,
				keyed(fmt.Sprint("k", i))); a.status != http.StatusPaymentRequired {
				r.Fatalf("%d %.300s", a.status, a.body)
			}
		}
	}
	for range 3 {
		r.wallet(100).buys(r, cardPath)
	}
	r.rest()
}

// unheld waits until nothing is reserved for an order. Released reservations count for some more seconds, because the
// issuer may not have seen them yet.
func (r *trial) unheld() {
	r.Helper()
	r.rest()
	r.await("nothing is reserved", func() error {
		if n := query[int64](r.world,
			"SELECT count(*) FROM reservations WHERE resource LIKE 'float/card/%' AND (released_at IS "+
				"NULL OR released_at > now() - interval '7 s')")[0]; n > 0 {
			return fmt.Errorf("%d reservations", n)
		}
		return nil
	})
}

func floodsEmptyWallets(r *trial) {
	// Signing is the attacker's part, and is done before.
	offered := r.wallet(0).terms(r, cardPath, keyed("k"))
	headers := make([]string, sized(400, 3000))
	for i := range headers {
		p := &wallet{caller: &caller{w: r.world}}
		p.key, p.address = newKey(r)
		headers[i] = p.pays(r, offered).header(r)
	}
	orders := r.count("orders")
	c := r.caller()
	for n := range 20 {
		if a := c.send(r.Context(), http.MethodPost, cardPath, keyed(fmt.Sprint("k", n)), headerPayment,
			headers[n]); a.status != http.StatusPaymentRequired {
			r.Fatalf("a wallet without money: %d %.300s", a.status, a.body)
		}
	}
	if now := r.count("orders"); now != orders {
		r.Errorf("wallets without money left %d orders", now-orders)
	}
	r.flooded(60, func(ctx context.Context, c *caller, n int) answer {
		return c.send(ctx, http.MethodPost, cardPath, keyed(fmt.Sprint("k", n)), headerPayment, headers[n%len(headers)])
	})
}

func floodsSignIns(r *trial) {
	victim := r.wallet(0)
	body := map[string]any{"address": victim.address.Hex()}
	r.flooded(20, func(ctx context.Context, c *caller, n int) answer {
		if n%2 == 0 {
			return c.send(ctx, http.MethodPost, "/api/auth/challenge", body)
		}
		return c.send(ctx, http.MethodPost, "/api/auth/verify", map[string]any{
			"address": victim.address.Hex(), "intentId": uuid.NewString(), "signature": fmt.Sprintf("0x%0130x", n),
		})
	})
	victim.signsIn(r)
}

func guessesTokens(r *trial) {
	first := ""
	for _, token := range []string{
		"", "x", "rco_", "rco_" + fmt.Sprintf("%064x", 1), r.operator[:len(r.operator)-1], r.operator + "0",
	} {
		a := r.caller().send(r.Context(), http.MethodGet, "/api/admin/card-issue-fee/jobs", nil, "Authorization",
			"Bearer "+token)
		if a.status != http.StatusUnauthorized {
			r.Errorf("token of %d characters: %d", len(token), a.status)
		}
		if first == "" {
			first = a.code()
		}
		if a.code() != first {
			r.Errorf("token of %d characters: %s, and %s before", len(token), a.code(), first)
		}
	}
	r.flooded(60, func(ctx context.Context, c *caller, n int) answer {
		return c.send(ctx, http.MethodGet, "/api/admin/card-issue-fee/jobs", nil, "Authorization",
			fmt.Sprintf("Bearer rco_%064x", n))
	})
}

func floodsEvents(r *trial) {
	r.flooded(120, func(ctx context.Context, c *caller, n int) answer {
		return c.send(ctx, http.MethodPost, "/api/events", map[string]any{
			"eventId": uuid.NewString(), "eventName": "page_view", "visitorId": uuid.NewString(), "path": "/",
		})
	})
}

func floodsMCP(r *trial) {
	headers := []string{"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18"}
	r.flooded(120, func(ctx context.Context, c *caller, n int) answer {
		return c.send(ctx, http.MethodPost, "/mcp", map[string]any{"jsonrpc": "2.0", "id": n, "method": "tools/list"},
			headers...)
	})
}

func floodsBombs(r *trial) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	random := make([]byte, 12<<10)
	_, _ = rand.Read(random) // never fails
	bombs := []string{
		deep(700), strings.Repeat("[", 3900), `{"idempotencyKey":"` + strings.Repeat("k", 3900) + `"}`,
		strings.Repeat(" ", 1<<20),
		`{"idempotencyKey":` + strings.Repeat("9", 3900) + `}`, `{"a":1e999999999}`, strings.Repeat(`{"a":1},`, 480),
	}
	headers := []string{
		base64.StdEncoding.EncodeToString([]byte(deep(1000))), base64.StdEncoding.EncodeToString(random)[:16<<10-4],
	}
	var packed bytes.Buffer // 24 MiB of spaces in 24 KiB
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, strings.Repeat(" ", 24<<20)) // to memory
	_ = z.Close()
	before := r.programs[0].memory()
	r.besiege(func(ctx context.Context) {
		counts := flood(ctx, sized(100, 300), 10, 100, func(ctx context.Context, n int) answer {
			c := r.caller() // a rate would only hide it
			if n%3 == 0 {
				return c.send(ctx, http.MethodPost, cardPath, keyed("k"), headerPayment, headers[n%2])
			}
			if n%10 == 1 {
				return c.send(ctx, http.MethodPost, "/roamcard.v1.CardService/PurchaseCard", packed.String(), "Content-Encoding",
					"gzip", "Content-Type", "application/json")
			}
			return c.send(ctx, http.MethodPost, []string{cardPath, esimPath, "/api/events", "/mcp"}[n%4], bombs[n%len(bombs)])
		})
		for status, n := range counts {
			if status == http.StatusOK || status >= 500 {
				r.Errorf("%d bombs were answered %d", n, status)
			}
		}
	})
	const most = 300 << 20
	if grown := r.programs[0].memory() - before; grown > most {
		r.Errorf("the program grew by %d MB", grown>>20)
	}
}

func floodsReads(r *trial) {
	paths := []string{
		"/api/config", "/api/openapi.json", "/api/esim/plans", "/.well-known/agent.json", "/ready", "/api/card/discovery",
	}
	r.besiege(func(ctx context.Context) {
		c := r.caller()
		counts := flood(ctx, sized(300, 600), 20, 100, func(ctx context.Context, n int) answer {
			return c.send(ctx, http.MethodGet, paths[n%len(paths)], nil)
		})
		for status := range counts {
			if status >= 500 {
				r.Errorf("reads were answered %v", counts)
			}
		}
	})
}

func guessesOrders(r *trial) {
	p, other := r.wallet(100), r.wallet(0)
	p.owns(r)
	other.signsIn(r)
	var open order
	p.post(r, "/api/orders", map[string]any{"amountUsdCents": 2500}).into(r, &open)
	unknown := open.OrderID[:len(open.OrderID)-4] + "0000"
	want := other.get(r, "/api/orders/"+unknown)
	for _, id := range []string{open.OrderID, "ord_" + uuid.NewString(), "x", "1", "ord_"} {
		a := other.get(r, "/api/orders/"+id)
		if a.status != http.StatusNotFound || a.code() != want.code() {
			r.Errorf("order %q: %d %s, want %d %s", id, a.status, a.code(), want.status, want.code())
		}
	}
	r.besiege(func(ctx context.Context) {
		c := r.caller()
		counts := flood(ctx, 200, 20, 100, func(ctx context.Context, n int) answer {
			return c.send(ctx, http.MethodGet, fmt.Sprintf("/pay/ord_%032x", n), nil)
		})
		for status := range counts {
			if status != http.StatusNotFound && status != http.StatusTooManyRequests && status != 0 {
				r.Errorf("guessed orders were answered %v", counts)
			}
		}
	})
}
