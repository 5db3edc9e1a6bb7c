package supervise

import "runtime"

// thread is one that Envoys which die with the agent are started on, and that lives as long as it: to the kernel the end of a child's parent is the
// end of the thread that has started it.
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

// do returns when the thread has done it.
func (t *thread) do(work func() error) error {
	result := make(chan error, 1)
	t.work <- func() { result <- work() }
	return <-result
}

func (t *thread) end() { close(t.work) }
