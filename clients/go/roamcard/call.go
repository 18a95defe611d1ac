package roamcard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/x402"
)

// call is one paid request: what identifies it, and what makes it again.
type call struct {
	req                *http.Request
	body               []byte
	id, idempotencyKey string
	payer              x402.Address
	// asked is the request as the journal keeps it.
	asked json.RawMessage
	// price is what the service publishes; nil when it publishes none, and only the caps decide.
	price func(ctx context.Context) (Cents, error)
}

// mayBePaid keeps the payer out of streams and of bodies that are no roamcard request.
func mayBePaid(req *http.Request) bool {
	return isPayPath(req.URL.Path) ||
		(req.Method == http.MethodPost && strings.HasPrefix(req.Header.Get("Content-Type"), "application/json") &&
			req.ContentLength <= maxPaidBody)
}

func (p *Payer) read(req *http.Request) (call, error) {
	c := call{req: req}
	if req.Body != nil {
		body, err := io.ReadAll(io.LimitReader(req.Body, maxPaidBody+1))
		if err = errors.Join(err, req.Body.Close()); err != nil {
			return call{}, fmt.Errorf("read the request: %w", err)
		}
		if len(body) > maxPaidBody {
			return call{}, fmt.Errorf("the request has more than %d bytes", maxPaidBody)
		}
		c.body = body
	}
	var named struct {
		IdempotencyKey string `json:"idempotencyKey"`
	}
	switch {
	case isPayPath(req.URL.Path):
		// The order is the identity: its id is in the path.
		c.idempotencyKey = req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
		c.asked = json.RawMessage(fmt.Sprintf(`{"orderId":%q}`, c.idempotencyKey))
	case json.Unmarshal(c.body, &named) == nil:
		c.idempotencyKey, c.asked = named.IdempotencyKey, c.body
		if id, ok := topupOf(req.URL.Path); ok {
			c.asked = withOrderID(c.body, id)
		}
	}
	if c.idempotencyKey == "" {
		return c, nil
	}
	var err error
	if c.payer, err = x402.ParseAddress(p.Signer.Address()); err != nil {
		return call{}, fmt.Errorf("read the signer's address: %w", err)
	}
	c.id = c.nonce(0)
	return c, p.price(&c)
}

// nonce is that of the purchase's attempt; the first one's names the purchase.
func (c call) nonce(attempt int) string {
	return x402.DerivedNonce(c.origin(), c.path(), c.payer, c.idempotencyKey, attempt).String()
}

// price finds what the call costs by what the service publishes. A purchase of any eSIM becomes one of the plan
// that the journal knows for its key, or of the cheapest.
func (p *Payer) price(c *call) error {
	ctx := c.req.Context()
	c.price = p.published(*c)
	if c.operation() != OpESIM || p.Plan == nil {
		return nil
	}
	var request map[string]any
	if json.Unmarshal(c.body, &request) != nil {
		return nil // the service says what is wrong with it
	}
	planID, _ := request["planId"].(string)
	if planID == "" {
		if known, ok, err := p.journal().named(ctx, c.id); err != nil {
			return err
		} else if ok {
			planID = known
		} else if planID, _, err = p.Plan(ctx, ""); err != nil {
			return err
		}
		request["planId"] = planID
		var err error
		if c.body, err = json.Marshal(request); err != nil {
			return fmt.Errorf("name the plan: %w", err)
		}
		c.asked = c.body
	}
	c.price = func(ctx context.Context) (Cents, error) {
		_, price, err := p.Plan(ctx, planID)
		return price, err
	}
	return nil
}

// published is what a call costs, whoever makes it: the published price, that of the order which is paid, or what the
// request itself names. Nil leaves it to the caps.
func (p *Payer) published(c call) func(context.Context) (Cents, error) {
	operation := c.operation()
	if operation == OpTopup {
		asked := &roamcardv1.TopUpCardRequest{}
		err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(c.body, asked)
		if err == nil && asked.AmountUsdCents != nil {
			return func(context.Context) (Cents, error) { return Cents(asked.GetAmountUsdCents()), nil }
		}
	}
	if p.Price != nil && slices.Contains([]string{OpCard, OpTopup, OpOrder}, operation) {
		return func(ctx context.Context) (Cents, error) { return p.Price(ctx, operation, c.idempotencyKey) }
	}
	return nil
}

// digest is the SHA-256 of a body, of JSON in one spelling: the protobuf library varies its white space from build to
// build, and the protocols differ in the order of members.
func digest(body []byte) string {
	var value any
	from := json.NewDecoder(bytes.NewReader(body))
	from.UseNumber()
	if from.Decode(&value) == nil && !from.More() {
		if spelled, err := json.Marshal(value); err == nil {
			body = spelled
		}
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// request makes a new request, with a payment when there is one.
func (c call) request(payment string) *http.Request {
	req := c.req.Clone(c.req.Context())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
	// The transport's own compression is taken off again while the answer is read, within its bound.
	req.Header.Del("Accept-Encoding")
	if payment != "" {
		req.Header.Set(x402.HeaderSignature, payment)
	}
	return req
}

func (c call) origin() string { return c.req.URL.Scheme + "://" + c.req.URL.Host }

// operation names what is paid for, for the policy.
func (c call) operation() string {
	if isPayPath(c.req.URL.Path) {
		return OpOrder
	}
	return c.path()
}

// path is the documented one of what is paid for: it names the purchase whatever the protocol.
func (c call) path() string {
	called := c.req.URL.Path
	if _, ok := topupOf(called); ok {
		return OpESIMTopup
	}
	if isPayPath(called) {
		return OpOrder + called[strings.LastIndexByte(called, '/'):]
	}
	if path, paid := procedures[called]; paid {
		return path
	}
	return called
}

// The operations that a policy may name, by their documented paths, as in every language.
const (
	OpCard  = "/api/card/purchase"
	OpTopup = "/api/card/topup"
	OpESIM  = "/api/esim/purchase"
	OpOrder = "/pay"
	// OpESIMTopup is the path of more data for an eSIM, whichever that is.
	OpESIMTopup = "/api/esim/orders/{orderId}/topup"
)

// topupOf is the order in the path of more data for its eSIM; ok is false for another path.
func topupOf(path string) (orderID string, ok bool) {
	id, of := strings.CutPrefix(path, "/api/esim/orders/")
	id, topup := strings.CutSuffix(id, "/topup")
	return id, of && topup && id != "" && !strings.Contains(id, "/")
}

// withOrderID is a request as it is over Connect: with the order that REST has in the path.
func withOrderID(body []byte, orderID string) json.RawMessage {
	var request map[string]any
	if json.Unmarshal(body, &request) != nil {
		return body
	}
	request["orderId"] = orderID
	whole, err := json.Marshal(request)
	if err != nil {
		return body
	}
	return whole
}

// procedures are the paid ones of the Connect protocol.
var procedures = map[string]string{
	roamcardv1connect.CardServicePurchaseCardProcedure: OpCard,
	roamcardv1connect.CardServiceTopUpCardProcedure:    OpTopup,
	roamcardv1connect.EsimServicePurchaseEsimProcedure: OpESIM,
	roamcardv1connect.EsimServiceTopUpEsimProcedure:    OpESIMTopup,
}
