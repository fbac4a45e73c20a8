// Runs .ms files in the released MindSpore Lite 2.0.0 runtime for 64-bit ARM, natively or under qemu-user.
// usage: ms_arm_child DIR
// DIR/list holds one line per case: the case's name and the number of inputs. DIR/<case>.ms is loaded, DIR/<case>.in<i>
// are raw little-endian tensors in the model's own layout, all of some multiple of its batch; DIR/<case>.out<i> and DIR/<case>.shapes (a line per output:
// name, type, dimensions, separated by tabs) or DIR/<case>.error are written. Cases that have a result are left alone;
// DIR/<case>.running marks the case at work, so that the parent can go on behind one that crashed.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "include/api/context.h"
#include "include/api/model.h"
#include "include/api/types.h"

namespace {
std::vector<char> ReadFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Exists(const std::string &path) { return std::ifstream(path).good(); }

std::string Run(const std::string &stem, int count) {
  auto context = std::make_shared<mindspore::Context>();
  context->SetThreadNum(1);
  auto cpu = std::make_shared<mindspore::CPUDeviceInfo>();
  cpu->SetEnableFP16(false);
  context->MutableDeviceInfo().push_back(cpu);
  mindspore::Model model;
  const auto bytes = ReadFile(stem + ".ms");
  if (model.Build(bytes.data(), bytes.size(), mindspore::kMindIR_Lite, context) != mindspore::kSuccess) {
    return "the runtime refused the file";
  }
  auto inputs = model.GetInputs();
  if (static_cast<int>(inputs.size()) != count) return "the model has another number of inputs";
  std::vector<std::vector<char>> given;
  std::vector<std::vector<int64_t>> shapes;
  bool resized = false;
  for (int i = 0; i < count; i++) {
    given.push_back(ReadFile(stem + ".in" + std::to_string(i)));
    shapes.push_back(inputs[i].Shape());
    const size_t size = inputs[i].DataSize();
    if (given[i].size() == size) continue;
    if (size == 0 || shapes[i].empty() || given[i].size() % size != 0) return "input " + std::to_string(i) + " has another size";
    shapes[i][0] *= given[i].size() / size;
    resized = true;
  }
  if (resized) {
    if (model.Resize(inputs, shapes) != mindspore::kSuccess) return "the runtime refused to resize the file";
    inputs = model.GetInputs();
  }
  for (int i = 0; i < count; i++) {
    if (given[i].size() != inputs[i].DataSize()) return "input " + std::to_string(i) + " has another size after resizing";
    std::memcpy(inputs[i].MutableData(), given[i].data(), given[i].size());
  }
  std::vector<mindspore::MSTensor> outputs;
  if (model.Predict(inputs, &outputs) != mindspore::kSuccess) return "the run failed";
  std::ofstream listed(stem + ".shapes.part");
  for (size_t i = 0; i < outputs.size(); i++) {
    listed << outputs[i].Name() << '\t' << static_cast<int>(outputs[i].DataType());
    for (auto dim : outputs[i].Shape()) listed << '\t' << dim;
    listed << '\n';
    const auto *data = static_cast<const char *>(outputs[i].MutableData());
    std::ofstream(stem + ".out" + std::to_string(i), std::ios::binary).write(data, outputs[i].DataSize());
  }
  listed.close();
  std::rename((stem + ".shapes.part").c_str(), (stem + ".shapes").c_str());
  return "";
}
}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  const std::string folder = std::string(argv[1]) + "/";
  std::ifstream list(folder + "list");
  std::string name;
  int count = 0;
  while (list >> name >> count) {
    const std::string stem = folder + name;
    if (Exists(stem + ".shapes") || Exists(stem + ".error")) continue;
    std::ofstream(stem + ".running").close();
    const std::string error = Run(stem, count);
    if (!error.empty()) std::ofstream(stem + ".error") << error;
    std::remove((stem + ".running").c_str());
  }
  return 0;
}
