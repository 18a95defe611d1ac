package roamcard_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// mayBeEmpty are the texts of calls that stand for "any" or "the first" when they are empty, by their places.
var mayBeEmpty = map[string][]int{
	"Cards.TransactionsPage": {2}, "Orders.Page": {2}, "Orders.ListKind": {1}, "Orders.CreateESIM": {1},
	"ESIM.Purchase": {1}, "ESIM.TopUp": {2}, "Quote.ESIM": {1}, "Quote.ESIMTopUp": {2}, "Plans.List": {1, 2},
}

// No call of any group signs in, signs or sends anything when a text is empty that identifies something.
func TestEmptyIdentityIsRefusedBeforeAnythingIsSent(t *testing.T) {
	sent := 0
	_, signed := payer(t, nil)
	c, err := roamcard.New(roamcard.Config{
		BaseURL: "https://shop.example", Signer: signed, OperatorToken: roamcard.NewSecret("t"),
		HTTP: roundTrip(func(*http.Request) (*http.Response, error) { sent++; return nil, errors.New("sent") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for name, group := range map[string]any{
		"Cards": c.Cards, "ESIM": c.ESIM, "Orders": c.Orders, "Quote": c.Quote, "Plans": c.Plans, "Admin": c.Admin(),
		"card": c.Services.Card, "esim": c.Services.Esim, "order": c.Services.Order,
	} {
		of := reflect.ValueOf(group)
		for i := range of.NumMethod() {
			method, call := name+"."+of.Type().Method(i).Name, of.Method(i)
			for place := 1; place < call.Type().NumIn(); place++ {
				if name == "Admin" && call.Type().In(place).Kind() == reflect.String ||
					slices.Contains(mayBeEmpty[method], place) {
					continue // what lists of operators are narrowed to
				}
				for _, empty := range []string{"", " \t"} {
					for _, args := range emptied(call.Type(), place, empty) {
						calls++
						if err := called(call, args); !errors.Is(err, roamcard.ErrEmpty) || sent > 0 || signed.n > 0 {
							t.Fatalf("%s with %q in place of argument %d: %v; sent %d, signed %d", method, empty, place, err, sent,
								signed.n)
						}
					}
				}
			}
		}
	}
	if calls < 100 {
		t.Errorf("only %d calls were found", calls)
	}
	for name, ctx := range map[string]context.Context{
		"key":   roamcard.WithIdempotencyKey(t.Context(), ""),
		"token": roamcard.WithDeliveryToken(t.Context(), roamcard.Secret{}),
	} {
		_, err := c.ESIM.Status(ctx, "ord_1")
		_, bought := c.Services.Card.CreateCardOrder(ctx, &roamcardv1.CreateCardOrderRequest{})
		if !errors.Is(err, roamcard.ErrEmpty) || !errors.Is(bought, roamcard.ErrEmpty) || sent > 0 || signed.n > 0 {
			t.Errorf("an empty %s: %v, %v; sent %d, signed %d", name, err, bought, sent, signed.n)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// emptied are arguments of a call that all name something, but for one text of the argument at a place.
func emptied(call reflect.Type, place int, empty string) (all [][]reflect.Value) {
	args := func() []reflect.Value {
		made := []reflect.Value{reflect.ValueOf(context.Background())}
		for i := 1; i < call.NumIn(); i++ {
			made = append(made, given(call.In(i)))
		}
		return made
	}
	switch of := call.In(place); {
	case of.Kind() == reflect.String:
		one := args()
		one[place] = reflect.ValueOf(empty).Convert(of)
		all = append(all, one)
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.String:
		one := args()
		one[place] = reflect.ValueOf([]string{"x", empty})
		all = append(all, one)
	case of.Implements(reflect.TypeFor[proto.Message]()):
		fields := given(of).Interface().(proto.Message).ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if !needed(fields.Get(i)) {
				continue
			}
			one := args()
			one[place].Interface().(proto.Message).ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfString(empty))
			all = append(all, one)
		}
	}
	return all
}

func needed(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.StringKind && !field.IsList() && !field.HasPresence()
}

// given is a value that names something.
func given(of reflect.Type) reflect.Value {
	switch {
	case of.Kind() == reflect.String:
		return reflect.ValueOf("x").Convert(of)
	case of.Kind() == reflect.Func:
		return reflect.MakeFunc(of, func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(true)} })
	case of.Implements(reflect.TypeFor[proto.Message]()):
		made := reflect.New(of.Elem())
		message := made.Interface().(proto.Message).ProtoReflect()
		fields := message.Descriptor().Fields()
		for i := range fields.Len() {
			if needed(fields.Get(i)) {
				message.Set(fields.Get(i), protoreflect.ValueOfString("x"))
			}
		}
		return made
	}
	return reflect.Zero(of)
}

// called is the error of a call, or that of what it lists.
func called(call reflect.Value, args []reflect.Value) error {
	answers := call.Call(args)
	last := answers[len(answers)-1]
	if err, ok := last.Interface().(error); ok || last.Type() == reflect.TypeFor[error]() {
		return err
	}
	var err error
	for range listed(last, &err) {
		break
	}
	return err
}

// listed runs an iter.Seq2 whose second value is an error.
func listed(of reflect.Value, err *error) iter.Seq[int] {
	return func(yield func(int) bool) {
		of.Call([]reflect.Value{reflect.MakeFunc(of.Type().In(0), func(in []reflect.Value) []reflect.Value {
			*err, _ = in[1].Interface().(error)
			return []reflect.Value{reflect.ValueOf(yield(0))}
		})})
	}
}

func TestURLWithAPasswordIsRefusedAndNotShown(t *testing.T) {
	_, err := roamcard.New(roamcard.Config{BaseURL: "https://me:hunter2@a.example"})
	if err == nil || !strings.Contains(err.Error(), "a user or a password") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
