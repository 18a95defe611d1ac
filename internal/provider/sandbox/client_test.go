package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
)

// against is a client of a vendor that answers everything in one way.
func against(t *testing.T, answer http.HandlerFunc) *sandbox.Issuer {
	t.Helper()
	web := httptest.NewServer(answer)
	t.Cleanup(web.Close)
	i, err := sandbox.Dial(sandbox.ClientConfig{URL: web.URL, HTTP: web.Client(), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestClientTakesOnlyADocumentedRefusalForOne(t *testing.T) {
	const no = `{"ok":false,"error":{"code":%q,"message":"m"}}`
	for _, c := range []struct {
		status  int
		body    string
		refusal string
	}{
		{422, fmt.Sprintf(no, "master_balance_low"), fulfilment.RefusedFloat},
		{422, fmt.Sprintf(no, "bin_offline"), card.RefusedBIN},
		{422, fmt.Sprintf(no, "holder_declined"), card.RefusedHolder},
		{422, fmt.Sprintf(no, "retention_quota"), card.RefusedFunds},
		{409, fmt.Sprintf(no, "card_not_usable"), card.RefusedState},
		{400, fmt.Sprintf(no, "invalid_request"), fulfilment.RefusedRequest},
		{422, fmt.Sprintf(no, "declined"), fulfilment.RefusedUnstated},
		{409, fmt.Sprintf(no, "reference_conflict"), ""},
		{422, fmt.Sprintf(no, "a_new_code"), ""},
		{422, `{"ok":false}`, ""},
		{422, `{"ok":true,"error":{"code":"declined","message":""}}`, ""},
		{422, `declined`, ""},
		{200, fmt.Sprintf(no, "declined"), ""},
		{500, fmt.Sprintf(no, "declined"), ""},
		{503, fmt.Sprintf(no, "master_balance_low"), ""},
		{429, fmt.Sprintf(no, "declined"), ""},
		{401, fmt.Sprintf(no, "declined"), ""},
		{403, `<html>blocked</html>`, ""},
		{404, `404 page not found`, ""},
		{204, ``, ""},
		{200, `{}`, ""},
		{200, `{"ok":true}`, ""},
		{200, `{"ok":true,"data":{}}`, ""},
		{200, `{"ok":true,"data":[]}`, ""},
		{200, `{"ok":true,"data":null}{}`, ""},
	} {
		i := against(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		_, err := i.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500})
		if err == nil || refusalCode(refusalOf(err)) != c.refusal {
			t.Errorf("%d %s: Open = %v, want the refusal %q", c.status, c.body, err, c.refusal)
		}
		_, err = i.Account(t.Context(), fulfilmenttest.NewRef())
		if err == nil || errors.Is(err, fulfilment.ErrNoRef) {
			t.Errorf("%d %s: Account = %v, want an error that settles nothing", c.status, c.body, err)
		}
	}
}

func TestClientFollowsNoRedirects(t *testing.T) {
	followed := false
	i := against(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed = true
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := i.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500})
	if err == nil || refusalOf(err) != nil || followed {
		t.Errorf("Open = %v, followed %v", err, followed)
	}
}

func TestTwoDifferentReportsSettleNothing(t *testing.T) {
	ref := fulfilmenttest.NewRef()
	one := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"reference":%q,"status":"live","loadCents":2500,"currency":"USD","last4":"1111"}`, id,
			ref)
	}
	i := against(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"ok":true,"data":{"items":[%s,%s]}}`, one("crd_1"), one("crd_2"))
	})
	if account, err := i.Account(t.Context(), ref); err == nil || errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Account = %+v, %v; want an error that settles nothing", account, err)
	}
}

func TestIssuersNamesAreHarmlessInPaths(t *testing.T) {
	ref := fulfilmenttest.NewRef()
	for _, id := range []string{"", "..", "a/b", "a?b", strings.Repeat("a", 65)} {
		i := against(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w,
				`{"ok":true,"data":{"id":%q,"reference":%q,"status":"live","loadCents":2500,"currency":"USD"}}`, id, ref)
		})
		if account, err := i.Open(t.Context(), card.Opening{Ref: ref, Load: 2500}); err == nil {
			t.Errorf("a card named %q was taken: %+v", id, account)
		}
	}
}

// The vendor quotes a card number wherever it can.
func TestCardNumbersStayOutOfErrorsLogsAndSpans(t *testing.T) {
	const number, code = "4000001234567899", "\"cvv\":\"987\""
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	var out bytes.Buffer
	for status, body := range map[int]string{
		200: `{"ok":true,"data":{"cardId":"crd_1","number":4000001234567899,"cvv":"987"}}`,
		422: `{"ok":false,"error":{"code":"declined","message":"number 4000 0012 3456 7899 \"cvv\":\"987\""}}`,
		500: `{"ok":false,"error":{"code":"4000001234567899","message":"4000-0012-3456-7899"}}`,
		409: `{"ok":false,"error":{"code":"other","message":"4000001234567899"}}`,
		502: `4000001234567899 "cvv":"987"`,
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		i, err := sandbox.Dial(sandbox.ClientConfig{URL: web.URL, HTTP: web.Client(), Tracer: tracer})
		if err != nil {
			t.Fatal(err)
		}
		_, err = i.Credentials(t.Context(), "crd_1")
		if err == nil {
			t.Errorf("%d %s was taken", status, body)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Error("reveal", "err", err)
		fmt.Fprintf(&out, "%v %+v %#v\n", err, err, err)
		_, err = i.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500})
		fmt.Fprintf(&out, "%v\n", err)
		web.Close()
	}
	for _, span := range spans.Ended() {
		fmt.Fprintf(&out, "%s %v %v %v\n", span.Name(), span.Attributes(), span.Status(), span.Events())
	}
	text := strings.NewReplacer(" ", "", "-", "").Replace(out.String())
	if strings.Contains(text, number) {
		t.Errorf("a card number shows in %s", out.String())
	}
	if strings.Contains(strings.Split(text, "openacard")[0], code) {
		t.Errorf("a security code shows in %s", out.String())
	}
	if n := len(spans.Ended()); n != 10 {
		t.Errorf("%d spans for 10 calls", n)
	}
}

func TestServerLogsNeitherBodiesNorKeys(t *testing.T) {
	var out bytes.Buffer
	key := secret.New("key-of-the-test")
	b := start(t, sandbox.Config{APIKey: key, Log: slog.New(slog.NewJSONHandler(&out, nil))})
	account := b.active("")
	secrets, err := b.Credentials(t.Context(), account.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{secrets.Number.Reveal(), key.Reveal()} {
		if strings.Contains(out.String(), text) {
			t.Errorf("the log holds %q", text)
		}
	}
	stranger, err := sandbox.Dial(sandbox.ClientConfig{URL: b.url, HTTP: b.web.Client(), APIKey: secret.New("other")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Stock(t.Context()); err == nil || refusalOf(err) != nil {
		t.Errorf("Stock with another key = %v", err)
	}
}

func TestDialTakesHTTPAddressesOnly(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:80", "ftp://host", "http://"} {
		if _, err := sandbox.Dial(sandbox.ClientConfig{URL: url}); err == nil {
			t.Errorf("Dial took %q", url)
		}
	}
}
