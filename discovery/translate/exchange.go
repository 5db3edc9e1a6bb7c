package translate

// exchange is what has gone from a list, and what has come.
type exchange[T comparable] struct{ gone, come []T }

// exchangeOf compares two lists. What both begin and end with is passed over quickly.
func exchangeOf[T comparable](before, now []T) exchange[T] {
	if sameList(before, now) {
		return exchange[T]{}
	}
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	return exchange[T]{without(before, now), without(now, before)}
}

func without[T comparable](list, other []T) (out []T) {
	if len(other) == 0 {
		return list
	}
	there := make(map[T]bool, len(other))
	for _, one := range other {
		there[one] = true
	}
	for _, one := range list {
		if !there[one] {
			out = append(out, one)
		}
	}
	return out
}
