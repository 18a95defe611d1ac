package roamcardtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/x402"
)

// network is what lies between a process and the service, and the service as its mood makes it.
type network struct{ process *process }

var errLost = errors.New("the connection was lost")

// RoundTrip implements http.RoundTripper.
func (n network) RoundTrip(req *http.Request) (*http.Response, error) {
	p := n.process
	body, err := readAll(req)
	if err != nil {
		return nil, err
	}
	if err := p.step("before it sends " + req.URL.Path); err != nil {
		return nil, err
	}
	operation, key := bought(req.URL.Path, body)
	header := req.Header.Get(x402.HeaderSignature)
	if header != "" {
		p.world.seen(operation, key, header)
	}
	p.mu.Lock()
	mood := p.mood
	p.mu.Unlock()
	x := exchange{world: p.world, req: req, body: body, operation: operation, name: operation + " " + key, header: header}
	res, err := x.answer(mood)
	if crashed := p.step("after it sent " + req.URL.Path); crashed != nil {
		return nil, crashed
	}
	return res, err
}

func readAll(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

// exchange is one request and what is made of it.
type exchange struct {
	world                   *world
	req                     *http.Request
	body                    []byte
	operation, name, header string
}

func (x exchange) answer(mood int) (*http.Response, error) {
	switch {
	case mood == 0 || x.world.draw(2) == 0:
		return x.ask(x.header)
	case mood == 1:
		return x.badly()
	case x.operation == "":
		return x.ask("") // what is published stays honest: a lie there is one about the terms
	case x.header == "":
		return x.falseTerms()
	}
	return x.lie()
}

// ask asks the honest service.
func (x exchange) ask(payment string) (*http.Response, error) {
	req := x.req.Clone(x.req.Context())
	req.Body = io.NopCloser(bytes.NewReader(x.body))
	req.Header.Del(x402.HeaderSignature)
	if payment != "" {
		req.Header.Set(x402.HeaderSignature, payment)
	}
	return x.world.service.Transport().RoundTrip(req)
}

// badly is a network that fails without lying.
func (x exchange) badly() (*http.Response, error) {
	kind := x.world.draw(6)
	if kind == 3 && x.operation == "" {
		kind = 1 // calls wait for what is published under a mutex, which the clock of a bubble does not pass
	}
	x.world.tell("network %d: %s", kind, x.name)
	switch kind {
	case 0: // the request is lost
		return nil, errLost
	case 1: // the answer is lost
		_, err := x.ask(x.header)
		return nil, errors.Join(errLost, err)
	case 2: // it is cut
		res, err := x.ask(x.header)
		if err == nil {
			res.Body = io.NopCloser(io.MultiReader(io.LimitReader(res.Body, 20), brokenBody{}))
		}
		return res, err
	case 3: // it comes too late
		res, err := x.ask(x.header)
		select {
		case <-time.After(31 * time.Second):
		case <-x.req.Context().Done():
			return nil, x.req.Context().Err()
		}
		return res, err
	case 4: // the service was there, and something before it was not
		if _, err := x.ask(x.header); err != nil {
			return nil, err
		}
		return x.plain(503, "upstream")
	}
	if _, err := x.ask(x.header); err != nil { // the request comes twice
		return nil, err
	}
	return x.ask(x.header)
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// falseTerms asks for something else than is published.
func (x exchange) falseTerms() (*http.Response, error) {
	res, err := x.ask("")
	if err != nil || res.StatusCode != http.StatusPaymentRequired {
		return res, err
	}
	required, err := x402.DecodeRequired(res.Header.Get(x402.HeaderRequired))
	if err != nil {
		return nil, err
	}
	kind := x.world.draw(6)
	x.world.tell("terms %d: %s", kind, x.name)
	offer := &required.Accepts[0]
	switch kind {
	case 0:
		offer.Amount = "24990000"
	case 1:
		offer.PayTo = "0x000000000000000000000000000000000000dEaD"
	case 2:
		offer.Asset = "0x000000000000000000000000000000000000dEaD"
	case 3:
		required.Accepts = append(required.Accepts, *offer)
	case 4:
		offer.MaxTimeoutSeconds = 3600
	case 5:
		required.Resource.URL = "http://other.test/api/card/purchase"
	}
	text, err := x402.EncodeRequired(required)
	res.Header.Set(x402.HeaderRequired, text)
	return res, err
}

// lie answers a payment as a thief does, who may take it too.
func (x exchange) lie() (*http.Response, error) {
	kind, taken := x.world.draw(12), ""
	if x.world.draw(2) == 0 {
		taken = fmt.Sprintf(", taken: %q", x.world.service.Token.Take(x.header))
	}
	x.world.tell("lie %d: %s%s", kind, x.name, taken)
	switch kind {
	case 0, 1:
		return x.callDead()
	case 2:
		return x.ask("")
	case 3:
		return x.plain(409, `{"code":"failed_precondition","message":"no","details":[]}`)
	case 4:
		return x.plain(200, "<html>Thank you</html>")
	case 5:
		return x.plain(200, "{}")
	case 6:
		res, err := x.plain(307, "")
		res.Header.Set("Location", "http://other.test/")
		return res, err
	case 7:
		return x.plain(500, "")
	case 8:
		return x.plain(429, "")
	case 9:
		return x.forge("ord_of_somebody_else", 1)
	case 10:
		return x.forge("ord_forged", 0)
	}
	return x.plain(402, "<html>pay</html>")
}

// callDead says that the payment was taken up and can never arrive, whatever became of it.
func (x exchange) callDead() (*http.Response, error) {
	res, err := x.ask("")
	if err != nil || res.StatusCode != http.StatusPaymentRequired {
		return res, err
	}
	text, err := x402.EncodeSettlement(x402.Settlement{Network: x402.NetworkID, ErrorReason: "expired"})
	res.Header.Set(x402.HeaderResponse, text)
	x.world.mu.Lock()
	x.world.dead[x.name]++
	x.world.mu.Unlock()
	return res, err
}

// forge answers with an order that fits the payment, but for so many cents.
func (x exchange) forge(id string, more int64) (*http.Response, error) {
	p, err := x402.DecodePayment(x.header)
	if err != nil {
		return nil, err
	}
	kind := map[string]string{"/api/card/purchase": "card_issue", "/api/card/topup": "card_topup",
		"/api/esim/purchase": "esim"}[x.operation]
	order := map[string]any{"orderId": id, "kind": kind, "status": "settled",
		"amountUsdCents": int64(p.Authorization.Value)/10_000 + more}
	text, err := json.Marshal(map[string]any{"order": order})
	if err != nil {
		return nil, err
	}
	return x.plain(200, string(text))
}

func (x exchange) plain(status int, body string) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}, "Date": {x.world.now().UTC().Format(http.TimeFormat)}}
	if strings.HasPrefix(body, "<") {
		header.Set("Content-Type", "text/html")
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Request: x.req,
		Body:    io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
	}, nil
}
