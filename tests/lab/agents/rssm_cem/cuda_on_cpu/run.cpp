// The kernel on a CPU: `imagine_all` runs every block of a launch.

static const int* given_sizes;
static const char* given_weights;
static const float *given_rows, *given_first, *given_actions;
static const u32* given_deter;
static float* taken_values;

static void one_thread() {
    imagine(given_sizes, given_weights, given_rows, given_first, given_deter, given_actions, taken_values);
}

extern "C" void imagine_all(int blocks, const int* sizes, const char* weights, const float* rows, const float* first,
                            const u32* deter, const float* actions, float* values) {
    given_sizes = sizes, given_weights = weights, given_rows = rows, given_first = first;
    given_deter = deter, given_actions = actions, taken_values = values;
    for (int which = 0; which < blocks; ++which) run_block(which, one_thread);
}
