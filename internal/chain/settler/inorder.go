package settler

import (
	"bytes"
	"slices"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"github.com/roamcard/roamcard/internal/x402"
)

// Step is one call of a transaction that makes several. If one fails that may not, none is made.
type Step struct {
	To      x402.Address
	Data    []byte
	MayFail bool
}

// Result is what became of a step: what it returned, or why it failed.
type Result struct {
	Success    bool
	ReturnData []byte
}

// call3 is a call of aggregate3.
type call3 struct {
	Target       common.Address
	AllowFailure bool
	CallData     []byte
}

var aggregateType = abi.Arguments{{Type: mustType("tuple[]", []abi.ArgumentMarshaling{
	{Name: "target", Type: "address"}, {Name: "allowFailure", Type: "bool"}, {Name: "callData", Type: "bytes"},
})}}

var resultsType = abi.Arguments{{Type: mustType("tuple[]", []abi.ArgumentMarshaling{
	{Name: "success", Type: "bool"}, {Name: "returnData", Type: "bytes"},
})}}

func mustType(name string, members []abi.ArgumentMarshaling) abi.Type {
	t, err := abi.NewType(name, "", members)
	if err != nil {
		panic(err) // a constant
	}
	return t
}

// InOrder is the call data of Multicall3 that makes all steps, or none.
func InOrder(steps ...Step) []byte {
	calls := make([]call3, len(steps))
	for i, s := range steps {
		calls[i] = call3{common.Address(s.To), s.MayFail, s.Data}
	}
	data, err := aggregateType.Pack(calls)
	if err != nil {
		panic(err) // the types are constant
	}
	return slices.Concat(selectorAggregate[:], data)
}

// ParseInOrder reads what InOrder makes. ok is false for any other call.
func ParseInOrder(data []byte) (steps []Step, ok bool) {
	text, ok := bytes.CutPrefix(data, selectorAggregate[:])
	if !ok {
		return nil, false
	}
	values, err := aggregateType.Unpack(text)
	if err != nil || len(values) != 1 {
		return nil, false
	}
	for _, c := range *abi.ConvertType(values[0], new([]call3)).(*[]call3) {
		steps = append(steps, Step{x402.Address(c.Target), c.CallData, c.AllowFailure})
	}
	return steps, bytes.Equal(InOrder(steps...), data)
}

// ResultsInOrder reads what an eth_call of InOrder has answered. Anything else is ErrAnswer.
func ResultsInOrder(answer []byte) ([]Result, error) {
	values, err := resultsType.Unpack(answer)
	if err != nil || len(values) != 1 {
		return nil, ErrAnswer
	}
	return *abi.ConvertType(values[0], new([]Result)).(*[]Result), nil
}
