// The kernels of gpu_device and gpu_initiated on the emulated driver.
#include "twins.hpp"

#include "../twins/blocks.hpp"
#include "bodies.hpp"
#include "measure.hpp"

using namespace testing_device;
using testing_twins::run_twin;

namespace {

template <class Work>
constexpr size_t bytes_of[] = {sizeof(Work), 0};

constexpr EmulatedTwin twins[] = {
    {"device_exchange", run_twin<ExchangeWork, exchange>, bytes_of<ExchangeWork>},
    {"device_relay", run_twin<RelayWork, relay>, bytes_of<RelayWork>},
    {"device_team", run_twin<TeamWork, team>, bytes_of<TeamWork>},
    {"device_call", run_twin<CallWork, call>, bytes_of<CallWork>},
    {"device_mail", run_twin<MailWork, mail>, bytes_of<MailWork>},
    {"device_jacobi", run_twin<JacobiWork, jacobi>, bytes_of<JacobiWork>},
    {"device_measure", run_twin<MeasureWork, measure>, bytes_of<MeasureWork>},
    {nullptr, nullptr, nullptr}};

}  // namespace

const EmulatedTwin* device_twins() {
  return twins;
}
