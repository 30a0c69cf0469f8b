// Hooks of a Python task: calling them, and what a close means to them.
#include "steps/actions.hpp"

namespace wilkins::actions {

namespace {

thread_local bool in_hook = false;

}  // namespace

void tell(Event event, const char* name) {
    auto* hook = hooks[static_cast<int>(event)].load();
    if (!hook || in_hook) return;
    in_hook = true;
    hook(name);
    in_hook = false;
}

Closing::Closing(const char* name) : name_(name) {
    ++closing.depth;
    closing.serve = false;
    notify(Event::before_close, name_);
}

Closing::~Closing() {
    --closing.depth;
    closing.closed = name_;
    notify(Event::after_close, name_);
    closing.closed = nullptr;
}

bool keeps_back() { return active.load(std::memory_order_relaxed) && !serves_on_close && !closing.serve; }

}  // namespace wilkins::actions
