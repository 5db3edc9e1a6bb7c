package supervise

import "runtime"

// thread is an OS thread that lives as long as the supervisor. Tied Envoys are started on it,
// because the kernel sends the parent-death signal when the thread that started a child ends.
type thread struct{ work chan func() }

func newThread() *thread {
	t := &thread{make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for work := range t.work {
			work()
		}
	}()
	return t
}

// do runs work on the thread and returns its error.
func (t *thread) do(work func() error) error {
	result := make(chan error, 1)
	t.work <- func() { result <- work() }
	return <-result
}

func (t *thread) end() { close(t.work) }
