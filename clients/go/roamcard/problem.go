package roamcard

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// problemOf is the problem that an answer tells: a document of its own over REST (RFC 9457), a detail of the
// error over Connect. An answer without one is named for its status.
func problemOf(res *http.Response) *APIError {
	body := bodyOf(res)
	var told struct {
		Details []struct{ Type, Value string }
	}
	p := &roamcardv1.Problem{}
	if json.Unmarshal(body, &told) == nil {
		for _, d := range told.Details {
			raw, err := base64.RawStdEncoding.DecodeString(d.Value)
			if err == nil && d.Type == string(p.ProtoReflect().Descriptor().FullName()) && proto.Unmarshal(raw, p) == nil {
				return problemError(p, nil)
			}
		}
	}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, p)
	if err != nil || p.GetTitle() == "" {
		return statusError(res.StatusCode)
	}
	return problemError(p, nil)
}

func statusError(status int) *APIError {
	return &APIError{Status: status, Code: fmt.Sprintf("http_%d", status), Title: http.StatusText(status),
		Detail: http.StatusText(status)}
}

// bodyOf reads a body and leaves it to be read again.
func bodyOf(res *http.Response) []byte {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // half of a problem is none
	res.Body = io.NopCloser(bytes.NewReader(body))
	return body
}
