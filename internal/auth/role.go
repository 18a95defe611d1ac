package auth

import "slices"

// Role is what an operator may do. Each role may do what those before it may.
type Role string

// The roles.
const (
	// RoleViewer reads.
	RoleViewer Role = "viewer"
	// RoleSupport does what moves no money.
	RoleSupport Role = "support"
	// RoleTreasurer decides about money.
	RoleTreasurer Role = "treasurer"
	// RoleAdmin opens sales again, and mints and revokes tokens.
	RoleAdmin Role = "admin"
)

var roles = []Role{RoleViewer, RoleSupport, RoleTreasurer, RoleAdmin}

// Roles are all roles, the least first.
func Roles() []Role { return slices.Clone(roles) }

// Known reports whether there is such a role.
func (r Role) Known() bool { return slices.Contains(roles, r) }

// Covers reports whether the role may do what another one may. No role covers an unknown one.
func (r Role) Covers(needed Role) bool {
	return needed.Known() && slices.Index(roles, r) >= slices.Index(roles, needed)
}
