package rpcx

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
)

// roleOf is a role of the proto files as the domain knows it.
func roleOf(r roamcardv1.Role) auth.Role {
	return auth.Role(strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_")))
}

// RoleOf is the least role that any request of an operators' method needs.
func RoleOf(p *roamcardv1.Policy) auth.Role { return roleOf(p.GetRole()) }

// checkRoles checks that the methods of operators, and no others, name the roles that they need.
func checkRoles(m protoreflect.MethodDescriptor, p *roamcardv1.Policy) error {
	operators := p.GetAccess() == roamcardv1.Access_ACCESS_OPERATOR
	if operators != roleOf(p.GetRole()).Known() {
		return fmt.Errorf("%s has the access %s and the role %s", m.FullName(), p.GetAccess(), p.GetRole())
	}
	for _, w := range p.GetRoleWhen() {
		f := m.Input().Fields().ByName(protoreflect.Name(w.GetField()))
		if f == nil || f.Kind() != protoreflect.BoolKind || f.IsList() || m.IsStreamingClient() ||
			!roleOf(w.GetRole()).Covers(roleOf(p.GetRole())) {
			return fmt.Errorf("%s raises its role by the field %q, which it cannot", m.FullName(), w.GetField())
		}
		if _, err := strconv.ParseBool(w.GetEquals()); err != nil {
			return fmt.Errorf("%s raises its role when %s is %q", m.FullName(), w.GetField(), w.GetEquals())
		}
	}
	return nil
}

// neededRole is the role that a request needs.
func neededRole(p *roamcardv1.Policy, request proto.Message) auth.Role {
	needed := roleOf(p.GetRole())
	m := request.ProtoReflect()
	for _, w := range p.GetRoleWhen() {
		value := m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(w.GetField()))).Bool()
		if raised := roleOf(w.GetRole()); strconv.FormatBool(value) == w.GetEquals() && raised.Covers(needed) {
			needed = raised
		}
	}
	return needed
}

// checkRole refuses a request of an operator whose role does not cover it, and records that.
func checkRole(
	ctx context.Context, c Config, m protoreflect.MethodDescriptor, p *roamcardv1.Policy, who auth.Caller,
	request proto.Message,
) error {
	if p.GetAccess() != roamcardv1.Access_ACCESS_OPERATOR {
		return nil
	}
	needed := neededRole(p, request)
	if who.Role.Covers(needed) {
		return nil
	}
	if c.Refusals != nil {
		if err := c.Refusals.Refused(ctx, who, string(m.Name()), needed); err != nil {
			return fmt.Errorf("record the refusal: %w", err)
		}
	}
	return fault.Newf(fault.OperatorRoleMissing, "This needs the role %s, and yours is %s.", needed, who.Role)
}
