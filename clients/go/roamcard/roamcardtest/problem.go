package roamcardtest

import (
	"encoding/base64"
	"encoding/json"
	"maps"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// problems are the service's, and do not depend on where it is.
var problems = publishedBy("").Problems

// problemOf is a failure as RFC 9457 has it.
func problemOf(code, detail, requestID string) map[string]any {
	kind := problems[code]
	return map[string]any{
		"type": "/problems/" + code, "title": kind.Title, "status": kind.Status, "detail": detail, "code": code,
		"retryable":      kind.Retryable,
		"safeToPayAgain": kind.SafeToPayAgain, "nextAction": kind.NextAction, "requestId": requestID,
	}
}

func (c call) problem(code, detail string) answer {
	return answer{status: problems[code].Status, body: problemOf(code, detail, c.id)}
}

// problemOn is a failure that is about an order.
func (c call) problemOn(o *order, code, detail string) answer {
	a := c.problem(code, detail)
	a.body["orderId"] = o.id
	return a
}

// connectError is the same as the Connect protocol has it.
func connectError(problem map[string]any) map[string]any {
	debug := maps.Clone(problem)
	for name, value := range debug {
		if value == false {
			delete(debug, name) // as protobuf's JSON has it
		}
	}
	code, _ := problem["code"].(string)
	message := new(roamcardv1.Problem)
	if err := protojson.Unmarshal([]byte(encode(problem)), message); err != nil {
		panic("roamcardtest: " + err.Error())
	}
	value, err := proto.Marshal(message)
	if err != nil {
		panic("roamcardtest: " + err.Error())
	}
	detail := map[string]any{"type": "roamcard.v1.Problem", "value": base64.RawStdEncoding.EncodeToString(value),
		"debug": debug}
	return map[string]any{"code": problems[code].Connect, "message": problem["detail"], "details": []any{detail}}
}

// encode writes JSON of what this package has made.
func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("roamcardtest: " + err.Error())
	}
	return string(text)
}
