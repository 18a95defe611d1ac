package endtoend_test

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/x402"
)

// callTools asks every MCP tool for all that it knows, in the name of a buyer with an open order, with secrets in
// all headers and arguments. It gives everything that was answered.
func (w *world) callTools(secrets canaries) string {
	t, b := w.t, w.buyer()
	b.signIn()
	secrets["the bearer of a caller of tools"] = b.token
	b.createOrder(cardOrdersPath, "canary-tools", "")
	header := b.bearer()
	maps.Copy(header, map[string]string{
		"X-Esim-Delivery-Token": secrets.plant("a delivery token for a tool", "rcd_"),
		"Cookie": "session=" +
			secrets.plant("a cookie for a tool", ""),
		x402.HeaderSignature: secrets.plant("a payment for a tool", ""),
		"Sign-In-With-X":     secrets.plant("a sign-in for a tool", ""),
	})
	var said strings.Builder
	ask := func(method, params string) answer {
		a := w.send(post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+
			`","params":`+params+`}`).with(header))
		wantStatus(t, fmt.Sprintf("%s %s", method, params), a, 200)
		said.Write(a.body)
		said.WriteByte('\n')
		return a
	}
	meta := `"_meta":{"x402/payment":{"payload":"` + secrets.plant("a payment inside a call", "0x") + `"}}`
	ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"`+
		secrets.plant("a client's name", "")+`","version":"1"}}`)
	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	ask("tools/list", `{`+meta+`}`).into(t, 200, &list)
	if len(list.Result.Tools) != 12 {
		t.Errorf("%d tools are listed", len(list.Result.Tools))
	}
	for _, tool := range list.Result.Tools {
		arguments := []string{`{}`, `{"` + secrets.plant("an argument's name of "+tool.Name, "a") + `":"` +
			secrets.plant("an argument of "+tool.Name, "") + `"}`}
		for _, id := range append(w.orderIDs(), secrets.plant("an order's id for "+tool.Name, "ord_")) {
			arguments = append(arguments, `{"orderId":`+jsonText(id)+`}`)
		}
		for _, given := range arguments {
			ask("tools/call", `{"name":"`+tool.Name+`","arguments":`+given+`,`+meta+`}`)
		}
	}
	// To these, what was sent may come back; what matters is that it is not written down.
	for name, params := range map[string]string{
		"a tool's name": `{"name":"` + secrets.plant("a tool's name", "t") + `"}`,
		"a cursor": `{"cursor":"` +
			secrets.plant("a cursor", "") + `"}`,
	} {
		wantStatus(t, name, w.send(post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+
			params+`}`).with(header)), 200)
	}
	return said.String()
}

// orderIDs are the orders of everybody.
func (w *world) orderIDs() []string {
	w.t.Helper()
	rows, err := w.db.Query(context.WithoutCancel(w.t.Context()), "SELECT id FROM orders")
	if err != nil {
		w.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(ids) < 2 {
		w.t.Fatalf("orders %v: %v", ids, err)
	}
	return ids
}
