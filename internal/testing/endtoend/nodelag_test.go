package endtoend_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// knowing answers as a node whose newest block is head: its tags name older blocks, newer ones are unknown to it, and
// so is what they hold. It passes transactions on.
func (p *nodeProxy) knowing(c nodeCall, head uint64) []byte {
	const unknownBlock = `"error":{"code":-32000,"message":"header not found"}`
	newer := func(number string) bool {
		n, err := strconv.ParseUint(strings.Trim(strings.TrimPrefix(number, "0x"), `"`), 16, 64)
		return err == nil && n > head
	}
	switch c.Method {
	case "eth_blockNumber":
		return c.answer(`"result":"0x` + strconv.FormatUint(head, 16) + `"`)
	case "eth_getTransactionReceipt", "eth_getTransactionByHash", "eth_getBlockByHash":
		answer := p.forward(c)
		var a struct {
			Result *struct{ BlockNumber, Number string }
		}
		if json.Unmarshal(answer, &a) == nil && a.Result != nil && newer(a.Result.BlockNumber+a.Result.Number) {
			return c.answer(`"result":null`)
		}
		return answer
	}
	for i, param := range c.Params {
		var at struct{ BlockHash, ToBlock string }
		switch {
		case json.Unmarshal(param, &at) == nil && at.BlockHash != "":
			if newer(p.numberOf(at.BlockHash)) {
				return c.answer(unknownBlock)
			}
		case at.ToBlock != "" && newer(at.ToBlock):
			return c.answer(`"error":{"code":-32602,"message":"block range extends beyond current head block"}`)
		case c.Method == "eth_getBlockByNumber" && newer(string(param)):
			return c.answer(`"result":null`)
		}
		for tag, less := range map[string]uint64{"latest": 0, "pending": 0, "safe": 1, "finalized": 2} {
			if string(param) == `"`+tag+`"` {
				c.Params[i] = json.RawMessage(`"0x` + strconv.FormatUint(head-min(head, less), 16) + `"`)
			}
		}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.ID, "method": c.Method, "params": c.Params})
	if err != nil {
		return c.answer(unknownBlock)
	}
	c.body = body
	return p.forward(c)
}

// blockQuantity asks the node itself for a quantity.
func (p *nodeProxy) blockQuantity(method string) uint64 {
	var a struct{ Result string }
	answer := p.forward(nodeCall{body: []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":[]}`)})
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(a.Result, "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// numberOf is the number of the block with a hash, as the node itself has it.
func (p *nodeProxy) numberOf(hash string) string {
	var a struct{ Result struct{ Number string } }
	answer := p.forward(nodeCall{body: []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByHash","params":["` + hash +
		`",false]}`)})
	if json.Unmarshal(bytes.TrimSpace(answer), &a) != nil {
		return ""
	}
	return a.Result.Number
}
