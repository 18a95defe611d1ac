package esimaccessfake_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
)

// client calls a server as the vendor documents it.
type client struct {
	*testing.T
	server *esimaccessfake.Server
	at     time.Time
}

func newClient(t *testing.T, cfg esimaccessfake.Config) *client {
	c := &client{T: t, at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	cfg.Now = func() time.Time { return c.at }
	c.server = esimaccessfake.New(cfg)
	return c
}

type answer struct {
	Success   bool            `json:"success"`
	ErrorCode string          `json:"errorCode"`
	Obj       json.RawMessage `json:"obj"`
}

// call sends a request that change may alter after it is signed.
func (c *client) call(path, body string, change func(*http.Request)) answer {
	c.Helper()
	r := httptest.NewRequest(http.MethodPost, "/api/v1/open/"+path, bytes.NewReader([]byte(body)))
	stamp, id := strconv.FormatInt(c.at.UnixMilli(), 10), uuid.NewString()
	mac := hmac.New(sha256.New, []byte(esimaccessfake.DevSecret))
	mac.Write([]byte(stamp + id + esimaccessfake.DevAccessCode + body))
	r.Header.Set("RT-AccessCode", esimaccessfake.DevAccessCode)
	r.Header.Set("RT-Timestamp", stamp)
	r.Header.Set("RT-RequestID", id)
	r.Header.Set("RT-Signature", hex.EncodeToString(mac.Sum(nil)))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	c.server.ServeHTTP(w, r)
	var got answer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		c.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return got
}

func (c *client) want(code, path, body string, change func(*http.Request)) {
	c.Helper()
	if got := c.call(path, body, change); got.ErrorCode != code || got.Success != (code == "0") {
		c.Errorf("%s %s: %+v, want %s", path, body, got, code)
	}
}

func TestOnlySignedRequestsAreTaken(t *testing.T) {
	c := newClient(t, esimaccessfake.Config{})
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	c.want("0", "balance/query", `{}`, nil)
	for _, name := range []string{"RT-AccessCode", "RT-Timestamp", "RT-RequestID", "RT-Signature"} {
		c.want("000101", "balance/query", `{}`, func(r *http.Request) { r.Header.Del(name) })
	}
	c.want("000102", "balance/query", `{}`, header("RT-AccessCode", "another"))
	c.want("000102", "balance/query", `{}`, header("RT-Timestamp", "now"))
	c.want("000102", "balance/query", `{}`, header("RT-RequestID", "1"))
	c.want("101003", "balance/query", `{}`, header("RT-RequestID", uuid.NewString()))
	c.want("101003", "balance/query", `{}`, header("RT-Signature", "00"))
	c.want("101003", "balance/query", `{}`, header("RT-Timestamp", strconv.FormatInt(c.at.UnixMilli()+1, 10)))
	c.want("101001", "balance/query", `{}`, func(*http.Request) { c.at = c.at.Add(6 * time.Minute) })
	c.want("000103", "balance/query", `{}`, func(r *http.Request) { r.Method = http.MethodGet })
}

func TestOnlyDocumentedRequestsAreTaken(t *testing.T) {
	c := newClient(t, esimaccessfake.Config{Balance: 7_500})
	const order = `{"transactionId":%q,"amount":%d,"packageInfoList":[{"packageCode":%q,"count":%d,"price":%d}]}`
	for code, bodies := range map[string][]string{
		"000104": {``, `{`, `[]`, `{"transactionID":1}`, `{"transactionId":"a","more":1}`, `{} {}`},
		"000105": {`{}`, `{"transactionId":"a"}`, `{"transactionId":"","packageInfoList":[{}]}`},
		"000107": {fmt.Sprintf(order, "a", 7_500, "FKE004", 2, 7_500), fmt.Sprintf(order,
			"123456789012345678901234567890123456789012345678901", 7_500, "FKE004", 1, 7_500)},
		"200005": {fmt.Sprintf(order, "a", 7_500, "FKE004", 1, 7_499)},
		"200006": {fmt.Sprintf(order, "a", 7_499, "FKE004", 1, 7_500)},
		"200007": {fmt.Sprintf(order, "a", 9_000, "FKE007", 1, 9_000)},
		"310241": {fmt.Sprintf(order, "a", 7_500, "NONE", 1, 7_500)},
	} {
		for _, body := range bodies {
			c.want(code, "esim/order", body, nil)
		}
	}
	if n := len(c.server.Orders()); n != 0 || c.server.Balance() != 7_500 {
		t.Errorf("%d orders, %d left", n, c.server.Balance())
	}
	pager := `"pager":{"pageSize":5,"pageNum":1}`
	for code, bodies := range map[string][]string{
		"000105": {
			`{"orderNo":"B1"}`, `{"orderNo":"B1","pager":{"pageSize":4,"pageNum":1}}`,
			`{"orderNo":"B1","pager":{"pageSize":501,"pageNum":1}}`, `{"orderNo":"B1","pager":{"pageSize":5,"pageNum":0}}`,
			`{` + pager + `}`, `{"startTime":"2026-03-01T12:00+00:00",` + pager + `}`,
			`{"startTime":"2026-03-01 12:00:00","endTime":"2026-03-01 13:00:00",` + pager + `}`,
		},
		"310272": {`{"orderNo":"B1",` + pager + `}`},
		"0":      {`{"startTime":"2026-03-01T12:00+00:00","endTime":"2026-03-01T13:00+00:00",` + pager + `}`},
	} {
		for _, body := range bodies {
			c.want(code, "esim/query", body, nil)
		}
	}
	c.want("000105", "esim/cancel", `{}`, nil)
}

func TestOneTransactionIsOneOrder(t *testing.T) {
	c := newClient(t, esimaccessfake.Config{})
	const body = `{"transactionId":"a","packageInfoList":[{"slug":"FR_1_7","count":1}]}`
	var numbers sync.Map
	var sent sync.WaitGroup
	for range 8 {
		sent.Go(func() { numbers.Store(string(c.call("esim/order", body, nil).Obj), true) })
	}
	sent.Wait()
	n := 0
	numbers.Range(func(any, any) bool { n++; return true })
	if made := c.server.Orders(); n != 1 || len(made) != 1 || made[0].Guarded {
		t.Errorf("%d answers, %+v", n, made)
	}
}

func TestAllocationTakesItsTime(t *testing.T) {
	c := newClient(t, esimaccessfake.Config{AllocateAfter: 30 * time.Second})
	c.want("0", "esim/order", `{"transactionId":"a","packageInfoList":[{"slug":"FR_1_7","count":1}]}`, nil)
	query := `{"orderNo":"` + c.server.Orders()[0].No + `","pager":{"pageSize":5,"pageNum":1}}`
	c.want("200010", "esim/query", query, nil)
	cancel := `{"esimTranNo":"` + c.server.Orders()[0].ProfileNo + `"}`
	c.want("200002", "esim/cancel", cancel, nil)
	c.at = c.at.Add(30 * time.Second)
	c.want("0", "esim/query", query, nil)
	before := c.server.Balance()
	c.want("0", "esim/cancel", cancel, nil)
	c.want("200002", "esim/cancel", cancel, nil)
	if credited := c.server.Balance() - before; credited != 7_500 {
		t.Errorf("credited %d", credited)
	}
}

func TestClearedFaultsSpoilNothing(t *testing.T) {
	c := newClient(t, esimaccessfake.Config{})
	control := func(method, body string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "/control/faults", bytes.NewReader([]byte(body)))
		r.RemoteAddr = "127.0.0.1:4000"
		c.server.ServeHTTP(w, r)
		return w.Code
	}
	fault := func() {
		if code := control(http.MethodPost, `{"op":"balance","mode":"busy_before"}`); code != http.StatusOK {
			t.Fatalf("added: %d", code)
		}
	}
	fault()
	c.want("900001", "balance/query", `{}`, nil)
	c.want("0", "balance/query", `{}`, nil)
	fault()
	fault()
	if code := control(http.MethodDelete, ""); code != http.StatusOK {
		t.Fatalf("cleared: %d", code)
	}
	c.want("0", "balance/query", `{}`, nil)
}
