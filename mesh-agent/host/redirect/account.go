package redirect

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
)

// LookupUser finds a user by name or number. An unknown number is accepted.
func LookupUser(word string) (Account, error) {
	if u, err := user.Lookup(word); err == nil {
		id, err := strconv.ParseUint(u.Uid, 10, 32)
		return Account{uint32(id), u.Username}, err
	}
	id, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		return Account{}, fmt.Errorf("there is no user %q on this machine: make it (useradd --system %[1]s), or name another", word)
	}
	return UserOf(uint32(id)), nil
}

// LookupGroup is LookupUser for groups.
func LookupGroup(word string) (Account, error) {
	if g, err := user.LookupGroup(word); err == nil {
		id, err := strconv.ParseUint(g.Gid, 10, 32)
		return Account{uint32(id), g.Name}, err
	}
	id, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		return Account{}, fmt.Errorf("there is no group %q on this machine: make it (groupadd --system %[1]s), or name another", word)
	}
	return GroupOf(uint32(id)), nil
}

// UserOf returns the user with a number, with its name if it has one.
func UserOf(id uint32) Account {
	if u, err := user.LookupId(fmt.Sprint(id)); err == nil {
		return Account{id, u.Username}
	}
	return Account{ID: id}
}

// GroupOf is UserOf for groups.
func GroupOf(id uint32) Account {
	if g, err := user.LookupGroupId(fmt.Sprint(id)); err == nil {
		return Account{id, g.Name}
	}
	return Account{ID: id}
}

func lookupAll(words []string, lookup func(string) (Account, error)) (all []Account, err error) {
	for _, word := range words {
		a, err := lookup(word)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

func has(accounts []Account, id uint32) bool {
	return slices.ContainsFunc(accounts, func(a Account) bool { return a.ID == id })
}

// own returns the accounts that identify Envoy's own connections, or an error if they cannot be
// told from the machine's.
func (o Outbound) own(user, group Account) (Own, error) {
	const root = 0
	switch {
	case user.ID != root && len(o.Users) == 1 && has(o.Users, user.ID):
		return Own{}, fmt.Errorf("what user %s sends is Envoy's own, which is not sent to Envoy again: choose other users with --redirect-users", user)
	case user.ID != root:
		return Own{Users: []Account{user}}, nil
	case group.ID != root:
		return Own{Groups: []Account{group}}, nil
	case len(o.Users) > 0 && !has(o.Users, root), has(o.ExceptUsers, root), len(o.Groups) > 0 && !has(o.Groups, root), has(o.ExceptGroups, root):
		return Own{}, nil
	case len(o.Ports) == 0:
		return Own{}, nil
	}
	return Own{}, errors.New("Envoy runs as root, and so may programs whose connections are redirected, so its own cannot be told from theirs: " +
		"run Envoy as a user of its own (useradd --system mesh-agent, then --envoy-user mesh-agent), " +
		"or leave root's connections alone with --redirect-except-users root")
}
