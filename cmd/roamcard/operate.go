package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// What operators do is made of the protos: each method of OperatorService says by which commands it is called, in the
// option `command`, and how its fields are given and its messages are listed, in `flag` and `table`. A method that is
// added there is a command without a line here, except for an answer that wants words of its own, see viewFor.

// operation is one command of operators.
type operation struct {
	*roamcardv1.Command
	b      *buyer
	method protoreflect.MethodDescriptor
	// yes says not to ask, key is the Idempotency-Key.
	yes bool
	key string
	// limit is how many are listed, and watch how often they are listed again; zero for all, and once.
	limit uint32
	watch time.Duration
}

// operations are the commands that call a service, below the commands of their first words.
func (b *buyer) operations(service protoreflect.ServiceDescriptor, subjects map[string]*cobra.Command) {
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		for _, c := range optionOf[[]*roamcardv1.Command](method, roamcardv1.E_Command) {
			subject, verb, below := strings.Cut(c.GetName(), " ")
			o := &operation{Command: c, b: b, method: method}
			if !below {
				subjects[subject] = o.command(subject, subject)
				continue
			}
			if subjects[subject] == nil {
				subjects[subject] = &cobra.Command{Use: subject, Args: noArgs, Short: subjectWords[subject], RunE: help}
			}
			subjects[subject].AddCommand(o.command(subject, verb))
		}
	}
}

// optionOf is an option of something in the protos, or its zero value.
func optionOf[T any](of protoreflect.Descriptor, option protoreflect.ExtensionType) T {
	got, _ := proto.GetExtension(of.Options(), option).(T)
	return got
}

func (o *operation) command(subject, verb string) *cobra.Command {
	use := verb
	for _, a := range o.GetArguments() {
		use += " " + argumentName(subject, a)
	}
	cmd := &cobra.Command{Use: use, Short: o.GetShort(), RunE: o.b.run(o.act)}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if want := strings.Fields(use)[1:]; len(args) != len(want) {
			return fmt.Errorf("%w: the arguments are: %s", errUsage, first(strings.Join(want, " "), "none"))
		}
		return nil
	}
	o.flags(cmd)
	if args := o.GetArguments(); len(args) > 0 {
		of, _, _ := strings.Cut(args[0], "/")
		said := optionOf[*roamcardv1.Flag](o.method.Input().Fields().ByName(protoreflect.Name(of)), roamcardv1.E_Flag)
		cmd.ValidArgsFunction = firstArg(fixed(said.GetProposes()...))
	}
	if o.lists() {
		cmd.Flags().Uint32Var(&o.limit, "limit", 100, "how many to list; 0 lists all")
		cmd.Flags().DurationVar(&o.watch, "watch", 0, "list them again that often, such as 5s, whenever they have changed")
	}
	if optionOf[*roamcardv1.Policy](o.method, roamcardv1.E_Policy).GetIdempotencyHeader() != 0 {
		cmd.Flags().StringVar(&o.key, "key", "", "Idempotency-Key; the same key does it once (default: a new one)")
	}
	outputs := []string{"table", "json", "csv"}
	if o.isView() {
		outputs = outputs[:2]
	}
	cmd.Flags().String("output", "table", "how it is printed: "+strings.Join(outputs, ", "))
	choose(cmd, "output", outputs...)
	if o.GetIrreversible() != "" {
		cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask before what cannot be taken back")
	}
	return cmd
}

// flags adds the flags of the request.
func (o *operation) flags(cmd *cobra.Command) {
	fields := o.method.Input().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); o.isFlag(f) {
			addFlag(cmd, f)
		}
	}
}

// newMessage is an empty message of the program's own type.
func newMessage(of protoreflect.MessageDescriptor) (protoreflect.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		return nil, fmt.Errorf("find the message: %w", err)
	}
	return kind.New(), nil
}

// isView says that the answer is no table.
func (o *operation) isView() bool {
	answer, err := newMessage(o.method.Output())
	return err == nil && viewFor(answer.Interface()) != nil
}

// argumentName is how a usage line calls the argument of a field.
func argumentName(subject, field string) string {
	if field == "id" {
		words := strings.Split(subject, "-")
		return strings.ToUpper(strings.TrimSuffix(words[len(words)-1], "s"))
	}
	return strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(field, "_id"), "_index"))
}

// isFlag says that a field of the request is given by a flag.
func (o *operation) isFlag(f protoreflect.FieldDescriptor) bool {
	name := string(f.Name())
	if name == "page_size" || name == "page_token" {
		return false
	}
	for _, s := range o.GetSets() {
		if field, _, _ := strings.Cut(s, "="); field == name {
			return false
		}
	}
	return !slices.Contains(strings.Split(strings.Join(o.GetArguments(), "/"), "/"), name)
}

// flagWords are those of flags that many commands have.
var flagWords = map[protoreflect.Name]string{
	"reason":   "why, for the audit trail",
	"version":  "only while it is at this version, as it was read (default: at any)",
	"revision": "only while it is at this revision, as it was read (default: at any)",
	"status":   "only those in this status",
	"kind":     "only those of this kind",
}

func flagName(f protoreflect.FieldDescriptor) string {
	named := optionOf[*roamcardv1.Flag](f, roamcardv1.E_Flag).GetName()
	return first(named, strings.ReplaceAll(string(f.Name()), "_", "-"))
}

// isDuration says that a field is a number of seconds, which is given as a duration.
func isDuration(f protoreflect.FieldDescriptor) bool {
	return strings.HasSuffix(string(f.Name()), "_seconds")
}

// addFlag adds the flag of a field. Its values and whether it must be given are the field's rules.
func addFlag(cmd *cobra.Command, f protoreflect.FieldDescriptor) {
	said, rules := optionOf[*roamcardv1.Flag](f, roamcardv1.E_Flag), optionOf[*validate.FieldRules](f, validate.E_Field)
	name, words, text := flagName(f), first(said.GetWords(), flagWords[f.Name()]), rules.GetString()
	if values := text.GetIn(); len(values) > 0 {
		words += ": " + strings.Join(values, ", ")
	}
	switch {
	case isDuration(f):
		cmd.Flags().Duration(name, 0, words)
	case f.Kind() == protoreflect.Uint32Kind:
		cmd.Flags().Uint32(name, 0, words)
	case f.Kind() == protoreflect.BoolKind:
		cmd.Flags().Bool(name, false, words)
	default:
		cmd.Flags().String(name, said.GetValue(), words)
	}
	if values := text.GetIn(); len(values) > 0 {
		choose(cmd, name, values...)
	} else if len(said.GetProposes()) > 0 {
		complete(cmd, name, fixed(said.GetProposes()...))
	}
	needed := rules.GetRequired() || rules.GetUint32().GetGte() > 0 || text.GetMinLen() > 0 || text.GetPattern() != "" ||
		text.GetUuid() || len(text.GetIn()) > 0
	if needed && !f.HasOptionalKeyword() {
		_ = cmd.MarkFlagRequired(name) // there is such a flag
	}
}

// request is what the command line asks for.
func (o *operation) request(cmd *cobra.Command, args []string) (protoreflect.Message, error) {
	// What exports has no --output.
	if f := cmd.Flags().Lookup("output"); f != nil && o.b.asJSON && f.Changed && f.Value.String() != "json" {
		return nil, fmt.Errorf("%w: --json is not --output %s", errUsage, f.Value)
	}
	req, err := newMessage(o.method.Input())
	if err != nil {
		return nil, err
	}
	fields := req.Descriptor().Fields()
	for i, a := range o.GetArguments() {
		names, called := strings.Split(a, "/"), strings.Fields(cmd.Use)[1+i]
		values := []string{args[i]}
		if len(names) > 1 { // reports have a # in front of the last part, too
			values = strings.SplitN(strings.ReplaceAll(args[i], "#", "/"), "/", len(names))
		}
		if len(values) != len(names) {
			return nil, fmt.Errorf("%w: %s is written with a slash", errUsage, called)
		}
		for j, name := range names {
			if err := set(req, fields.ByName(protoreflect.Name(name)), strings.Split(called, "/")[j], values[j]); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range o.GetSets() {
		name, value, _ := strings.Cut(s, "=")
		if err := set(req, fields.ByName(protoreflect.Name(name)), name, value); err != nil {
			return nil, err
		}
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		if !o.isFlag(f) {
			continue
		}
		if flag := cmd.Flags().Lookup(flagName(f)); flag.Changed || flag.Value.Type() == "string" && flag.DefValue != "" {
			if err := set(req, f, "--"+flag.Name, flag.Value.String()); err != nil {
				return nil, err
			}
		}
	}
	return req, nil
}

// set gives a field its value, which is written as on the command line, where the field is called so.
func set(m protoreflect.Message, f protoreflect.FieldDescriptor, called, text string) error {
	wrong := func(is string) error { return fmt.Errorf("%w: %s is %s, not %q", errUsage, called, is, text) }
	if !utf8.ValidString(text) {
		return wrong("text in UTF-8")
	}
	switch {
	case isDuration(f):
		d, err := time.ParseDuration(text)
		if seconds := d / time.Second; err == nil && seconds > 0 && seconds == time.Duration(uint32(seconds)) {
			m.Set(f, protoreflect.ValueOfUint32(uint32(seconds)))
			return nil
		}
		return wrong("a duration of a second or more, such as 12h or 720h")
	case f.Kind() == protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return wrong("a number")
		}
		m.Set(f, protoreflect.ValueOfUint32(uint32(n)))
	case f.Kind() == protoreflect.BoolKind:
		m.Set(f, protoreflect.ValueOfBool(text == "true"))
	default:
		m.Set(f, protoreflect.ValueOfString(text))
	}
	return nil
}

func (o *operation) act(cmd *cobra.Command, client *roamcard.Client, args []string) error {
	return o.asFlags(cmd, o.run(cmd, client, args))
}

func (o *operation) run(cmd *cobra.Command, client *roamcard.Client, args []string) error {
	req, err := o.request(cmd, args)
	if err != nil {
		return err
	}
	if o.lists() {
		return o.list(cmd, client, req)
	}
	if err := o.confirm(cmd, client, req); err != nil {
		return err
	}
	ctx, key := cmd.Context(), ""
	if cmd.Flags().Lookup("key") != nil {
		if key = first(o.key, roamcard.NewKey()); strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
			return fmt.Errorf("%w: --key has other characters than the visible ones of ASCII", errUsage)
		}
		ctx = roamcard.WithIdempotencyKey(ctx, key)
	}
	res, err := call(ctx, client, o.method, req)
	if err != nil && key != "" && isUnanswered(err) {
		return fmt.Errorf("%w\nwhether it was done is not known; repeated with --key %s it is done once", err, line(key))
	}
	if err != nil {
		return err
	}
	err = o.show(cmd, cmd.OutOrStdout(), res)
	if err != nil && !isRead(o.method) {
		return fmt.Errorf("it was done, and cannot be shown: %w", err)
	}
	return err
}

// asFlags is an error of the service in which members of the request are called as on the command line.
func (o *operation) asFlags(cmd *cobra.Command, err error) error {
	refused, ok := errors.AsType[*roamcard.APIError](err)
	if !ok {
		return err
	}
	for i, said := range refused.Fields {
		member, wrong, _ := strings.Cut(said, ":")
		f := o.method.Input().Fields().ByJSONName(member)
		if f == nil || cmd.Flags().Lookup(flagName(f)) == nil {
			continue
		}
		if isDuration(f) {
			wrong += " seconds"
		}
		refused.Fields[i] = "--" + flagName(f) + ":" + wrong
	}
	return err
}

// isUnanswered says that the service may have done what it was asked for.
func isUnanswered(err error) bool {
	if dialled, ok := errors.AsType[*net.OpError](err); ok && dialled.Op == "dial" {
		return false // it was not reached
	}
	status := roamcard.ReportOf(err).Status
	return status == 0 || status >= http.StatusInternalServerError
}

// call asks the service.
func call(
	ctx context.Context, client *roamcard.Client, method protoreflect.MethodDescriptor, req protoreflect.Message,
) (proto.Message, error) {
	to := reflect.ValueOf(client.Admin().OperatorServiceClient).MethodByName(string(method.Name()))
	got := to.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(req.Interface())})
	if err, _ := got[1].Interface().(error); err != nil {
		return nil, err
	}
	return got[0].Interface().(proto.Message), nil
}

// confirm asks before what nobody can take back, and shows first what it is about. Without a person at a terminal it
// takes --yes.
func (o *operation) confirm(cmd *cobra.Command, client *roamcard.Client, req protoreflect.Message) error {
	if o.GetIrreversible() == "" || o.yes {
		return nil
	}
	return sure(cmd, o.GetIrreversible(), func(w io.Writer) error {
		fmt.Fprintf(w, "%s %s\n", o.GetName(), strings.Join(cmd.Flags().Args(), " "))
		if o.GetPreview() == "" {
			return nil
		}
		return o.preview(cmd.Context(), cmd.ErrOrStderr(), client, req)
	})
}

// sure shows what cannot be taken back, and asks whether to go on. Without a person at a terminal it takes --yes.
func sure(cmd *cobra.Command, why string, show func(io.Writer) error) error {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !terminal(in) {
		return fmt.Errorf("%w: %s Nobody is here to be asked: say --yes", errUsage, why)
	}
	w := printable{cmd.ErrOrStderr()}
	if err := show(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s Go on? [y/N] ", why)
	answer, err := readLine(cmd.Context(), in)
	if cmd.Context().Err() != nil {
		return errDeclined // interrupted
	}
	if err != nil {
		return err
	}
	if !isYes(answer) {
		return errDeclined
	}
	return nil
}

func (o *operation) preview(ctx context.Context, w io.Writer, client *roamcard.Client, req protoreflect.Message) error {
	service, _ := o.method.Parent().(protoreflect.ServiceDescriptor)
	method := service.Methods().ByName(protoreflect.Name(o.GetPreview()))
	about, err := newMessage(method.Input())
	if err != nil {
		return err
	}
	of, _, _ := strings.Cut(o.GetArguments()[0], "/")
	name := protoreflect.Name(of)
	is := req.Get(req.Descriptor().Fields().ByName(name))
	if listOf(method.Output()) != nil {
		err = previewOne(ctx, w, client, method, about, name, is.String())
		if errors.Is(err, errNotListed) && o.key != "" {
			return nil // its list has no longer what was done with the key
		}
		return err
	}
	about.Set(about.Descriptor().Fields().ByName(name), is)
	res, err := call(ctx, client, method, about)
	if err != nil {
		return err
	}
	tidy(res)
	return writeColumns(w, func(w io.Writer) { viewOf(w, res, true) })
}

// previewOne shows the one of a list whose field has a value. Nothing is asked about what the list does not have.
func previewOne(
	ctx context.Context, w io.Writer, client *roamcard.Client, method protoreflect.MethodDescriptor,
	req protoreflect.Message, field protoreflect.Name, is string,
) error {
	all, _, err := pages(ctx, client, method, req, 0)
	if err != nil {
		return err
	}
	rows := all.ProtoReflect().Get(listOf(method.Output())).List()
	for i := range rows.Len() {
		row := rows.Get(i).Message()
		if f := row.Descriptor().Fields().ByName(field); f != nil && strings.EqualFold(row.Get(f).String(), is) {
			tidy(row.Interface())
			return writeColumns(w, func(w io.Writer) { viewOf(w, row.Interface(), true) })
		}
	}
	return fmt.Errorf("%w: %s", errNotListed, line(is))
}

// errNotListed says that there is nothing to ask about.
var errNotListed = errors.New("nothing was done: there is none of this name, or it can no longer be changed")

// lists says that the answer is a list: it has one repeated message, and nothing that is about all of them.
func (o *operation) lists() bool { return listOf(o.method.Output()) != nil && o.GetArguments() == nil }

// listOf is the field of an answer that is a list; nil when the answer is about something.
func listOf(answer protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	var list protoreflect.FieldDescriptor
	for i := range answer.Fields().Len() {
		f := answer.Fields().Get(i)
		switch {
		case f.IsList() && f.Kind() == protoreflect.MessageKind && list == nil:
			list = f
		case f.Name() != "next_page_token":
			return nil
		}
	}
	return list
}

// leastWatch is how often a list is read at most: each time is in the audit trail.
var leastWatch = time.Second

// list shows a list, again and again when it is watched.
func (o *operation) list(cmd *cobra.Command, client *roamcard.Client, req protoreflect.Message) error {
	if cmd.Flags().Changed("watch") && o.watch < leastWatch {
		return fmt.Errorf("%w: --watch is a duration of %s or more", errUsage, leastWatch)
	}
	shown := ""
	for {
		res, more, err := pages(cmd.Context(), client, o.method, req, o.limit)
		if o.watch > 0 && cmd.Context().Err() != nil {
			return nil // interrupted, as is usual
		}
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := o.show(cmd, &out, res); err != nil {
			return err
		}
		if out.String() != shown {
			shown = out.String()
			if _, err := io.WriteString(cmd.OutOrStdout(), shown); err != nil {
				return fmt.Errorf("show the list: %w", err)
			}
			if more {
				fmt.Fprintf(cmd.ErrOrStderr(), "There are more: these are %d; --limit 0 lists all.\n", o.limit)
			}
		}
		if o.watch == 0 {
			return nil
		}
		select {
		case <-time.After(o.watch):
		case <-cmd.Context().Done():
			return nil
		}
	}
}

// pages collects the pages of a list, up to a limit; zero is none.
func pages(
	ctx context.Context, client *roamcard.Client, method protoreflect.MethodDescriptor, req protoreflect.Message,
	limit uint32,
) (all proto.Message, more bool, err error) {
	const largest = 100
	list, fields := listOf(method.Output()), req.Descriptor().Fields()
	size, token := fields.ByName("page_size"), fields.ByName("page_token")
	next := method.Output().Fields().ByName("next_page_token")
	if token != nil {
		req.Clear(token) // of an earlier time
	}
	for {
		if size != nil {
			req.Set(size, protoreflect.ValueOfUint32(min(limit-1, largest-1)+1)) // no limit is the largest number
		}
		res, err := call(ctx, client, method, req)
		if err != nil {
			return nil, false, err
		}
		page := res.ProtoReflect()
		if all == nil {
			all = res
		} else {
			for i := range page.Get(list).List().Len() {
				all.ProtoReflect().Mutable(list).List().Append(page.Get(list).List().Get(i))
			}
		}
		if more = next != nil && page.Has(next); more {
			req.Set(token, page.Get(next))
			all.ProtoReflect().Clear(next)
		}
		found := all.ProtoReflect().Mutable(list).List()
		if limit > 0 && found.Len() >= int(limit) {
			more = more || found.Len() > int(limit)
			found.Truncate(int(limit))
			return all, more, nil
		}
		if !more {
			return all, false, nil
		}
	}
}
