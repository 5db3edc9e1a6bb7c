package authorization

import rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"

// logic combines Envoy's conditions: on permissions, or on principals.
type logic[M any] struct {
	any      func() *M
	all, one func([]*M) *M
	not      func(*M) *M
}

//nolint:dupl // Envoy has two messages of one shape
var permissions = logic[rbacv3.Permission]{
	any: func() *rbacv3.Permission { return &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}} },
	all: func(list []*rbacv3.Permission) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: list}}}
	},
	one: func(list []*rbacv3.Permission) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: list}}}
	},
	not: func(p *rbacv3.Permission) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
	},
}

//nolint:dupl // Envoy has two messages of one shape
var principals = logic[rbacv3.Principal]{
	any: func() *rbacv3.Principal { return &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}} },
	all: func(list []*rbacv3.Principal) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: list}}}
	},
	one: func(list []*rbacv3.Principal) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: list}}}
	},
	not: func(p *rbacv3.Principal) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
	},
}

// question is one field of a rule: what it wants to be so, and what it wants not to be so. Match
// asks whether one of some values is there; nil: that cannot be asked, and what is left of the
// values, if any, is.
type question[M any] struct {
	is, isNot []string
	match     func(values []string) (asked *M, whole bool)
}

// each asks for values one by one. Match returns nil for a value that cannot be asked for.
func (l logic[M]) each(is, isNot []string, match func(value string) *M) question[M] {
	return question[M]{is, isNot, func(values []string) (*M, bool) {
		var list []*M
		for _, value := range values {
			if m := match(value); m != nil {
				list = append(list, m)
			}
		}
		if len(list) == 0 {
			return nil, false
		}
		return l.one(list), len(list) == len(values)
	}}
}

// list asks for all values at once. Match returns nil if that cannot be done.
func (l logic[M]) list(is, isNot []string, match func(values []string) *M) question[M] {
	return question[M]{is, isNot, func(values []string) (*M, bool) {
		m := match(values)
		return m, m != nil
	}}
}

// ask combines questions: the answer to all has to be yes. It leaves out what cannot be asked;
// whole is false if it did.
func (l logic[M]) ask(questions []question[M]) (asked *M, whole bool) {
	var list []*M
	whole = true
	add := func(q question[M], values []string, wrap func(*M) *M) {
		if len(values) == 0 {
			return
		}
		m, all := q.match(values)
		if whole = whole && all; m != nil {
			list = append(list, wrap(m))
		}
	}
	for _, q := range questions {
		add(q, q.is, func(m *M) *M { return m })
		add(q, q.isNot, l.not)
	}
	if len(list) == 0 {
		list = append(list, l.any())
	}
	return l.all(list), whole
}
